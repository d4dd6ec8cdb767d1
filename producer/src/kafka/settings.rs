//! How a cluster is reached: what is passed through to librdkafka, and which of it would break a rule.
//!
//! 1. Any property of librdkafka can be passed through, except those that would break a rule of Keylane; such a one is
//!    refused with the rule.
//! 2. A secret comes from a file or the environment, never from the command line, where every user of the machine sees
//!    it. No value is ever printed, unless the property is known and cannot hold a secret: a mistyped name may be a
//!    password's.

use std::{collections::BTreeMap, fmt, path::Path};

use rdkafka::{ClientConfig, config::RDKafkaLogLevel, error::KafkaError, types::RDKafkaConfRes};

use super::KafkaServers;
use crate::error::{Detail, Error};

/// Our own property: where the token for SASL OAUTHBEARER comes from. It is read anew whenever the client asks for one.
const OAUTH_TOKEN: &str = "keylane.oauthbearer.token";

/// Where a property was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertySource {
    /// On the command line or in a variable that holds the same text. A secret must be named by `file:` or `env:`.
    Flag,
    /// In a file of properties, which may hold secrets.
    File,
}

/// How to reach a cluster. Its `Debug` form shows no value that could be a secret.
#[derive(Clone)]
pub struct KafkaSettings {
    servers: KafkaServers,
    properties: BTreeMap<String, Value>,
}

#[derive(Clone)]
struct Value {
    text: String,
    /// Where it came from, as it was written: `file:/run/password`. `None`: it was written out.
    reference: Option<String>,
}

impl KafkaSettings {
    /// A cluster without encryption and log-in.
    pub fn new(servers: KafkaServers) -> Self {
        Self { servers, properties: BTreeMap::new() }
    }

    /// The bootstrap list.
    pub fn servers(&self) -> &KafkaServers {
        &self.servers
    }

    /// Takes one `name=value`. A value `file:PATH` or `env:NAME` is what stands there.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the property and the rule, never the value: librdkafka does not know it or its value,
    /// it would break a rule of Keylane, or it is a secret on the command line.
    pub fn set(&mut self, assignment: &str, source: PropertySource) -> Result<(), Error> {
        let Some((name, written)) = assignment.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            // It may be a secret without its name.
            return Err(Error::Invalid(
                Detail::new("a Kafka property has the form NAME=VALUE, and one of these has no '='")
                    .remedy("write for example: --kafka-property security.protocol=SASL_SSL"),
            ));
        };
        if let Some((_, rule)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(Error::Invalid(
                Detail::new(format!("the Kafka property '{name}' is not for you to set: {rule}"))
                    .remedy("leave it out"),
            ));
        }
        if asks_an_endpoint(name) {
            return Err(Error::Invalid(
                Detail::new(format!("'{name}' is for a client that asks an OIDC endpoint for tokens, and ours has no HTTP"))
                    .remedy(format!(
                        "let a program beside it keep a token in a file, and write {OAUTH_TOKEN}=file:PATH: it is read for each new token"
                    )),
            ));
        }
        let value = read_value(name, written)?;
        if name == OAUTH_TOKEN {
            if value.reference.is_none() {
                return Err(Error::Invalid(
                    Detail::new(format!("'{OAUTH_TOKEN}' is a file or a variable, which is read for each new token"))
                        .remedy(format!("write {OAUTH_TOKEN}=file:PATH")),
                ));
            }
        } else {
            check(name, &value)?;
        }
        if source == PropertySource::Flag && value.reference.is_none() && is_secret(name) {
            return Err(Error::Invalid(
                Detail::new(format!("'{name}' is a secret, and others can read a command line"))
                    .remedy(format!("write --kafka-property {name}=file:PATH, or {name}=env:VARIABLE")),
            ));
        }
        self.properties.insert(name.to_owned(), value);
        Ok(())
    }

    /// Takes a file of properties: one `name=value` a line; empty lines and those that begin with `#` mean nothing.
    ///
    /// # Errors
    /// As [`KafkaSettings::set`], with the line; [`Error::NotFound`] if the file cannot be read.
    pub fn set_from_file(&mut self, path: &Path) -> Result<(), Error> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::NotFound(Detail::new(format!("cannot read the Kafka properties in '{}'", path.display())).because(e))
        })?;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            self.set(line, PropertySource::File).map_err(|error| {
                let place = Detail::new(format!("line {number} of '{}' does not fit", path.display()));
                let remedy = error.detail().remedy_text().unwrap_or("leave the line out").to_owned();
                Error::Invalid(place.remedy(remedy).because(error))
            })?;
        }
        Ok(())
    }

    /// The properties in force, by name; the value is left out where it could be a secret.
    pub fn shown(&self) -> impl Iterator<Item = (&str, String)> {
        self.properties.iter().map(|(name, value)| {
            let shown = match &value.reference {
                Some(reference) => format!("{reference} ({} bytes)", value.text.len()),
                None if is_secret(name) => format!("(hidden, {} bytes)", value.text.len()),
                None => value.text.clone(),
            };
            (name.as_str(), shown)
        })
    }

    /// What every client of ours starts from. Of what is set on it afterwards, ours wins.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", "keylane");
        // A broker that speaks TLS to one who does not hangs up; only a line of the log says that this may be the cause.
        // Who asks for the client's debug lines gets them.
        let level = if self.get("debug").is_some() { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info };
        config.set_log_level(level);
        for (name, value) in self.properties.iter().filter(|(name, _)| *name != OAUTH_TOKEN) {
            config.set(name, &value.text);
        }
        config.set("bootstrap.servers", self.servers.to_string());
        config.set("allow.auto.create.topics", "false");
        config
    }

    /// The value of a property that was passed through.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(|value| value.text.as_str())
    }

    /// Whether it was said where a token is.
    pub(super) fn has_oauth_token(&self) -> bool {
        self.properties.contains_key(OAUTH_TOKEN)
    }

    /// The token for SASL OAUTHBEARER, read anew; `None` if it was not said where it is.
    pub(super) fn oauth_token(&self) -> Option<Result<String, Error>> {
        let reference = self.properties.get(OAUTH_TOKEN)?.reference.as_ref()?;
        Some(read_value(OAUTH_TOKEN, reference).map(|value| value.text))
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        map.entry(&"bootstrap.servers", &format_args!("{}", self.servers));
        map.entries(self.shown()).finish()
    }
}

/// Resolves `file:` and `env:`.
fn read_value(name: &str, written: &str) -> Result<Value, Error> {
    let cannot = |what: String| Detail::new(format!("the Kafka property '{name}' is to come from {what}"));
    let text = if let Some(path) = written.strip_prefix("file:") {
        std::fs::read_to_string(path).map_err(|e| Error::Invalid(cannot(format!("'{path}'")).because(e)))?
    } else if let Some(variable) = written.strip_prefix("env:") {
        std::env::var(variable)
            .map_err(|_| Error::Invalid(cannot(format!("the variable '{variable}', which is not set or not text"))))?
    } else {
        return Ok(Value { text: written.to_owned(), reference: None });
    };
    // Files end with a newline that nobody means.
    Ok(Value { text: text.trim_end_matches(['\r', '\n']).to_owned(), reference: Some(written.to_owned()) })
}

/// Whether librdkafka takes it.
fn check(name: &str, value: &Value) -> Result<(), Error> {
    let mut config = ClientConfig::new();
    config.set(name, &value.text);
    let Err(KafkaError::ClientConfig(kind, said, ..)) = config.create_native_config().map(drop) else { return Ok(()) };
    let detail = match kind {
        RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN => Detail::new(format!("librdkafka does not know a property '{name}'")),
        // What librdkafka says has the value in it.
        _ if is_secret(name) || value.reference.is_some() => {
            Detail::new(format!("librdkafka does not take the value of '{name}'"))
        }
        _ => Detail::new(format!("librdkafka does not take the value of '{name}'")).because(said),
    };
    Err(Error::Invalid(detail.remedy("see CONFIGURATION.md of librdkafka 2.12 for names and values")))
}

/// Whether only a client that asks an OIDC endpoint has a use for it.
fn asks_an_endpoint(name: &str) -> bool {
    name.strip_prefix("sasl.oauthbearer.").is_some_and(|what| what != "config")
}

/// Whether a property may hold a secret.
fn is_secret(name: &str) -> bool {
    let secret = ["password", "secret", "token", ".pem", "oauthbearer.config", "assertion", "jaas"];
    secret.iter().any(|part| name.contains(part))
        // The ones that tell where something is.
        && !name.ends_with(".location")
        && !["sasl.oauthbearer.token.endpoint.url", "ssl.ca.pem", "ssl.certificate.pem"].contains(&name)
}

const OURS: &str = "Keylane decides it";
const ADDRESS: &str = "the address says it";
const FLAGS: &str = "a flag says it";
const PROGRESS: &str = "progress is committed only when it is in the store";
const IN_FLIGHT: &str = "more than one at a time can lose an acknowledged job while a leader changes";
const PROOF: &str = "receipts mean that every copy in sync has the job";

/// Properties that would break a rule, and the rule.
const REFUSED: &[(&str, &str)] = &[
    ("bootstrap.servers", ADDRESS),
    ("metadata.broker.list", ADDRESS),
    ("group.id", "--group says it"),
    ("group.instance.id", "a static member comes back in the same generation, so the generation orders no owners"),
    ("group.protocol", "the token is the classic protocol's generation; the next protocol is not supported yet"),
    ("group.remote.assignor", "it belongs to the next group protocol, which is not supported yet"),
    ("partition.assignment.strategy", "--assignor says it"),
    ("session.timeout.ms", "--session-timeout says it"),
    ("max.poll.interval.ms", "it follows from --drain-timeout and --session-timeout"),
    ("enable.auto.commit", PROGRESS),
    ("auto.commit.enable", PROGRESS),
    ("auto.commit.interval.ms", PROGRESS),
    ("enable.auto.offset.store", PROGRESS),
    ("auto.offset.reset", "a job that is there is never passed over"),
    ("isolation.level", "a job of a transaction that was aborted was never enqueued"),
    ("enable.partition.eof", OURS),
    ("enable.sparse.connections", OURS),
    (
        "allow.auto.create.topics",
        "a queue is made by 'keylane queue create', with the number of partitions that is meant",
    ),
    ("partitioner", "the key's partition is computed by Keylane and sent explicitly"),
    ("acks", PROOF),
    ("request.required.acks", PROOF),
    ("enable.idempotence", "without it a broken connection doubles or reorders jobs"),
    ("max.in.flight", IN_FLIGHT),
    ("max.in.flight.requests.per.connection", IN_FLIGHT),
    ("enable.gapless.guarantee", OURS),
    ("transactional.id", OURS),
    ("message.max.bytes", "it follows from the largest job"),
    ("fetch.message.max.bytes", "it follows from the largest job"),
    ("max.partition.fetch.bytes", "it follows from the largest job"),
    ("plugin.library.paths", "code from elsewhere could see the token"),
    ("interceptors", "code from elsewhere could see the token"),
    ("log_cb", FLAGS),
    ("error_cb", OURS),
    ("rebalance_cb", OURS),
    ("offset_commit_cb", OURS),
    ("opaque", OURS),
    ("default_topic_conf", OURS),
    ("log.queue", OURS),
    ("sasl.username.file", "write sasl.username=file:PATH"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> KafkaSettings {
        KafkaSettings::new("kafka.example".parse().unwrap())
    }

    fn refusal(assignment: &str) -> String {
        let error = settings().set(assignment, PropertySource::Flag).unwrap_err();
        format!("{} / {}", error.detail().chain(), error.detail().remedy_text().unwrap_or_default())
    }

    #[test]
    fn a_rule_that_a_property_would_break_is_named() {
        assert!(refusal("group.instance.id=pod-1").contains("same generation"));
        assert!(refusal("group.protocol=consumer").contains("not supported yet"));
        assert!(refusal("enable.auto.commit=true").contains("in the store"));
        assert!(refusal("acks=1").contains("every copy in sync"));
        assert!(refusal("session.timeout.ms=1").contains("--session-timeout"));
        for (name, _) in REFUSED {
            assert!(refusal(&format!("{name}=x")).contains(&format!("'{name}' is not for you to set")), "{name}");
        }
    }

    #[test]
    fn what_librdkafka_does_not_take_is_named() {
        assert!(refusal("compresion.type=lz4").contains("does not know a property 'compresion.type'"));
        assert!(refusal("compression.type=rar").contains("does not take the value of 'compression.type'"));
        assert!(refusal("security.protocol").contains("NAME=VALUE"));
    }

    #[test]
    fn no_value_that_could_be_a_secret_is_ever_shown() {
        for assignment in [
            "sasl.password=MARKER",
            "sasl.pasword=MARKER",
            "ssl.key.pem=MARKER",
            "ssl.key.password=MARKER",
            "ssl.keystore.password=MARKER",
            "sasl.oauthbearer.config=MARKER",
            "sasl.oauthbearer.client.secret=MARKER",
            "keylane.oauthbearer.token=MARKER",
            "MARKER",
            "no.such.thing=MARKER",
        ] {
            assert!(!refusal(assignment).contains("MARKER"), "{assignment}: {}", refusal(assignment));
            let mut settings = settings();
            let _ = settings.set(assignment, PropertySource::File);
            assert!(!format!("{settings:?}").contains("MARKER"), "{settings:?}");
        }
    }

    /// `docs/decisions/0015`.
    #[test]
    fn what_asks_an_oidc_endpoint_is_refused_with_another_way() {
        for assignment in [
            "sasl.oauthbearer.method=oidc",
            "sasl.oauthbearer.token.endpoint.url=https://id.example/token",
            "sasl.oauthbearer.client.id=keylane",
            "sasl.oauthbearer.client.secret=file:/run/secrets/client",
            "sasl.oauthbearer.assertion.algorithm=RS256",
        ] {
            let refused = settings().set(assignment, PropertySource::File).unwrap_err();
            let name = assignment.split_once('=').unwrap().0;
            assert!(refused.detail().chain().contains(name), "{refused:?}");
            assert!(
                refused.detail().remedy_text().is_some_and(|text| text.contains("keylane.oauthbearer.token=file:"))
            );
        }
        settings().set("sasl.oauthbearer.config=principal=alice", PropertySource::File).unwrap();
    }

    #[test]
    fn a_secret_comes_from_a_file_or_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "hunter2\n").unwrap();
        let mut settings = settings();
        settings.set(&format!("sasl.password=file:{}", path.display()), PropertySource::Flag).unwrap();
        assert_eq!(settings.config().get("sasl.password"), Some("hunter2"));
        assert!(format!("{settings:?}").contains("(7 bytes)"));
        assert!(refusal("sasl.password=env:KEYLANE_NO_SUCH_VARIABLE").contains("KEYLANE_NO_SUCH_VARIABLE"));
        assert!(refusal("sasl.password=file:/no/such/file").contains("/no/such/file"));
    }

    #[test]
    fn a_file_of_properties_names_the_line_at_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kafka.properties");
        std::fs::write(&path, "# how we log in\n\nsecurity.protocol=SASL_SSL\nsasl.password=hunter2\n").unwrap();
        let mut good = settings();
        good.set_from_file(&path).unwrap();
        assert_eq!(good.config().get("sasl.password"), Some("hunter2"));
        std::fs::write(&path, "security.protocol=SASL_SSL\nsasl.pasword=hunter2\n").unwrap();
        let error = settings().set_from_file(&path).unwrap_err();
        assert!(error.detail().remedy_text().is_some_and(|remedy| remedy.contains("CONFIGURATION.md")));
        let error = error.detail().chain();
        assert!(error.contains("line 2") && error.contains("sasl.pasword") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn ours_wins() {
        let mut settings = settings();
        settings.set("client.id=mine", PropertySource::Flag).unwrap();
        let config = settings.config();
        assert_eq!(config.get("client.id"), Some("mine"));
        assert_eq!(config.get("bootstrap.servers"), Some("kafka.example:9092"));
    }
}
