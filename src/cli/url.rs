//! Where the log and the store are: `sqlite:FILE`, `kafka://HOST:PORT,...`, `postgres://USER@HOST/DATABASE`.

use std::{fmt, path::PathBuf, str::FromStr};

use keylane_consumer::store::postgres::PostgresAddress;
use keylane_producer::{Detail, Error, kafka::KafkaServers};

/// Where queues are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrokerUrl {
    /// One file on this machine: log and group.
    Sqlite(PathBuf),
    /// Brokers of an Apache Kafka cluster.
    Kafka(KafkaServers),
}

/// Where effects are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// One file on this machine, which may have tables of others.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(PostgresUrl),
}

/// A `postgres://` URL as it was given. It is read only when it is used: whatever is wrong with one is told without
/// repeating it, since there may be a password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PostgresUrl(Box<str>);

impl PostgresUrl {
    pub(crate) fn address(&self) -> Result<PostgresAddress, keylane_consumer::Error> {
        self.0.parse()
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Ok(address) => write!(f, "{address}"),
            Err(_) => f.write_str("postgres://[not shown]"),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for BrokerUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match scheme_and_rest(text, "a broker")? {
            ("sqlite", file) => sqlite_file(text, file).map(Self::Sqlite),
            ("kafka", servers) => servers.strip_prefix("//").unwrap_or(servers).parse().map(Self::Kafka),
            (scheme, _) => Err(unknown(scheme, "brokers of this version are sqlite:FILE and kafka://HOST:PORT")),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match scheme_and_rest(text, "a store")? {
            ("sqlite", file) => sqlite_file(text, file).map(Self::Sqlite),
            ("postgres" | "postgresql", _) => Ok(Self::Postgres(PostgresUrl(text.into()))),
            (scheme, _) => Err(unknown(scheme, "stores are sqlite:FILE and postgres://USER@HOST/DATABASE")),
        }
    }
}

fn scheme_and_rest<'a>(text: &'a str, kind: &str) -> Result<(&'a str, &'a str), Error> {
    text.split_once(':').ok_or_else(|| {
        Error::Invalid(Detail::new(format!("{kind} has the form sqlite:FILE")).remedy(format!("write 'sqlite:{text}'")))
    })
}

/// The path after `sqlite:` or `sqlite://`.
fn sqlite_file(text: &str, rest: &str) -> Result<PathBuf, Error> {
    let file = rest.strip_prefix("//").unwrap_or(rest);
    match file {
        "" => Err(Error::Invalid(
            Detail::new(format!("'{text}' names no file")).remedy("write sqlite:FILE, for instance sqlite:keylane.db"),
        )),
        ":memory:" => Err(Error::Invalid(
            Detail::new("a queue in memory would end with this process").remedy("name a file: sqlite:keylane.db"),
        )),
        _ => Ok(PathBuf::from(file)),
    }
}

fn unknown(scheme: &str, kinds: &str) -> Error {
    Error::Invalid(
        Detail::new(format!("the scheme '{scheme}:' is none of ours: {kinds}"))
            .remedy("use sqlite:FILE, for instance sqlite:keylane.db"),
    )
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Self::Kafka(servers) => write!(f, "kafka://{servers}"),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<BrokerUrl>().unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_named_with_or_without_slashes() {
        for (text, path) in [
            ("sqlite:queue.db", "queue.db"),
            ("sqlite://queue.db", "queue.db"),
            ("sqlite:///var/q.db", "/var/q.db"),
            ("sqlite:/var/q.db", "/var/q.db"),
        ] {
            assert_eq!(text.parse::<BrokerUrl>().unwrap(), BrokerUrl::Sqlite(path.into()), "{text}");
            assert_eq!(text.parse::<StoreUrl>().unwrap(), StoreUrl::Sqlite(path.into()), "{text}");
        }
    }

    #[test]
    fn a_password_in_a_store_s_url_is_shown_nowhere() {
        let store: StoreUrl = "postgres://ann:s3cret@db.example/shop".parse().unwrap();
        assert!(!format!("{store} {store:?}").contains("s3cret"));
        let StoreUrl::Postgres(url) = store else { panic!("its scheme is postgres") };
        assert!(!url.address().unwrap_err().to_string().contains("s3cret"));
        let good = "postgres://ann@db.example/shop?password=env:PW";
        assert_eq!(good.parse::<StoreUrl>().unwrap().to_string(), good);
    }

    #[test]
    fn what_is_not_in_this_version_says_what_is() {
        assert_eq!("kafka://a,b:1".parse::<BrokerUrl>().unwrap().to_string(), "kafka://a:9092,b:1");
        assert!(refusal("redis://x").contains("sqlite:FILE"));
        assert!(refusal("queue.db").contains("sqlite:FILE"));
        assert!(refusal("sqlite:").contains("names no file"));
        assert!(refusal("sqlite::memory:").contains("memory"));
    }
}
