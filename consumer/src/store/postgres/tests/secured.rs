//! TLS and passwords.

use keylane_testing::postgres::{Options, Server};

use super::PostgresStore;
use crate::{
    error::Error,
    store::{
        FencedStore,
        conformance::{group, queue},
    },
};

#[test]
fn a_server_must_show_a_certificate_that_is_trusted_and_a_user_its_password() {
    let server = Server::start(&Options::default().tls()).unwrap();
    let database = server.database().unwrap();
    server
        .sql(
            &database,
            "CREATE ROLE with_password; CREATE ROLE ann SUPERUSER LOGIN PASSWORD 's3cret' IN ROLE with_password",
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (right, wrong) = (folder.path().join("right"), folder.path().join("wrong"));
    std::fs::write(&right, "s3cret\n").unwrap();
    std::fs::write(&wrong, "gu3ss\n").unwrap();
    let open = |tls: &str, ca: Option<&std::path::Path>, password: &std::path::Path| {
        let ca = ca.map_or(String::new(), |ca| format!("&sslrootcert={}", ca.display()));
        let query = format!("?sslmode={tls}{ca}&password=file:{}", password.display());
        let url = server.url_of("ann", &database) + &query;
        PostgresStore::new(url.parse().unwrap()).open(&queue(), &group()).map(drop)
    };
    for tls in ["verify-full", "verify-ca", "require"] {
        open(tls, server.ca(), &right).unwrap();
    }
    for (tls, ca, password) in [
        ("verify-full", server.other_ca(), &right),
        ("verify-ca", server.other_ca(), &right),
        ("verify-full", None, &right),
        ("disable", None, &right),
        ("verify-full", server.ca(), &wrong),
    ] {
        let error = open(tls, ca, password).unwrap_err();
        assert!(matches!(error, Error::Refused(_)) && error.detail().remedy_text().is_some(), "{tls}: {error:?}");
        assert!(!format!("{error:?} {}", error.detail().chain()).contains("gu3ss"), "{error:?}");
    }
}
