//! Logging in, and what a user may do.

use std::{sync::OnceLock, time::Duration};

use keylane_testing::kafka::{Cluster, Login, Options, Produce, Record, shared};
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    types::RDKafkaErrorCode,
};

use super::client::{LIMIT, brokers_named, config};

fn cluster() -> (&'static Cluster, &'static Login) {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    let options = Options::new(1).authorized().property("message.max.bytes", "1000");
    let cluster = CLUSTER.get_or_init(|| Cluster::start(&options).unwrap());
    (cluster, cluster.login().unwrap())
}

fn secured(mechanism: &str) -> ClientConfig {
    let (cluster, login) = cluster();
    let mut config = config(cluster.bootstrap());
    config.set("security.protocol", "SASL_SSL").set("ssl.ca.location", login.ca.to_str().unwrap());
    config.set("sasl.mechanism", mechanism);
    config
}

fn with_password(mechanism: &str, user: &str, password: &str) -> ClientConfig {
    let mut config = secured(mechanism);
    config.set("sasl.username", user).set("sasl.password", password);
    config
}

fn logs_in(config: &ClientConfig) -> bool {
    brokers_named(&config.create().unwrap(), LIMIT).unwrap() == 1
}

/// To a client's caller a refused login looks like a broker that does not answer; the broker's log says more.
fn is_refused(config: &ClientConfig, logged: &str) -> bool {
    let (cluster, _) = cluster();
    let before = cluster.log(0).matches(logged).count();
    let client: BaseConsumer = config.create().unwrap();
    brokers_named(&client, Duration::from_secs(5)).is_err() && cluster.log(0).matches(logged).count() > before
}

#[test]
fn each_mechanism_logs_in_and_a_wrong_secret_does_not() {
    let (_, login) = cluster();
    for mechanism in ["SCRAM-SHA-256", "PLAIN"] {
        assert!(logs_in(&with_password(mechanism, &login.user, &login.password)), "{mechanism}");
        assert!(is_refused(&with_password(mechanism, &login.user, "wrong"), "Failed authentication"), "{mechanism}");
    }
    let mut token = secured("OAUTHBEARER");
    token.set("enable.sasl.oauthbearer.unsecure.jwt", "true").set("sasl.oauthbearer.config", "principal=bearer");
    assert!(logs_in(&token));

    let mut distrusting = with_password("PLAIN", &login.user, &login.password);
    distrusting.set("ssl.ca.location", login.other_ca.to_str().unwrap());
    assert!(is_refused(&distrusting, "SSL handshake failed"));
}

#[test]
fn a_password_changes_and_goes() {
    let (cluster, _) = cluster();
    let bob = |password| with_password("SCRAM-SHA-256", "bob", password);
    cluster.set_password("bob", "first").unwrap();
    assert!(logs_in(&bob("first")));
    cluster.set_password("bob", "second").unwrap();
    assert!(is_refused(&bob("first"), "Failed authentication"));
    assert!(logs_in(&bob("second")));
    cluster.remove_user("bob").unwrap();
    assert!(is_refused(&bob("second"), "Failed authentication"));
}

#[test]
fn a_user_may_do_what_a_list_allows() {
    let (cluster, _) = cluster();
    cluster.create_topic("guarded", 1, &[]).unwrap();
    cluster.set_password("carol", "secret").unwrap();
    let carol: BaseConsumer = with_password("SCRAM-SHA-256", "carol", "secret").create().unwrap();
    let sees = || {
        let seen = carol.fetch_metadata(Some("guarded"), LIMIT).unwrap();
        seen.topics()[0].error().map(RDKafkaErrorCode::from)
    };
    assert_eq!(sees(), Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    cluster.allow("carol", "describe", "topic", "guarded").unwrap();
    assert_eq!(sees(), None);
    cluster.deny("carol", "describe", "topic", "*").unwrap();
    assert_eq!(sees(), Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    cluster.remove_acls("carol").unwrap();
    cluster.allow("carol", "all", "topic", "*").unwrap();
    assert_eq!(sees(), None);
    let watermarks = carol.fetch_watermarks("guarded", 0, LIMIT);
    assert!(!matches!(watermarks, Err(KafkaError::MetadataFetch(_))), "{watermarks:?}");
}

#[test]
fn a_property_wins_over_the_default() {
    let (cluster, _) = cluster();
    cluster.create_topic("small", 1, &[]).unwrap();
    let large = [7; 2000];
    let refusal = cluster.java_produce("small", &[Record::new("k", &large)], Produce::default()).unwrap_err();
    assert!(refusal.to_string().contains("RecordTooLargeException"), "{refusal}");
    assert!(shared(1).login().is_none());
}
