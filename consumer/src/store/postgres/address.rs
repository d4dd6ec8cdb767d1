//! Where the database is, how it is reached, and where the password comes from.
//!
//! 1. A password never stands in the URL: it can be read by others on a command line, and URLs are printed. It is named:
//!    `?password=file:PATH` or `env:NAME`, read at each connecting; else `PGPASSWORD`.
//! 2. To another machine the default is `sslmode=verify-full`; on this one, no TLS.

use std::{fmt, fs, path::PathBuf, str::FromStr, time::Duration};

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use postgres_openssl::MakeTlsConnector;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::error::{Detail, Error};

const FORM: &str = "write postgres://USER@HOST:PORT/DATABASE, with ?password=file:PATH or env:NAME if it needs one";
/// A connection that is cut without a word is noticed after this long, also while a worker waits for an answer.
const SILENCE: Duration = Duration::from_secs(15);

/// A parsed `postgres://` URL. It holds no password, so it may be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    shown: Box<str>,
    config: Config,
    tls: Tls,
    ca: Option<PathBuf>,
    password: Option<PasswordFrom>,
}

/// How far the server's certificate is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PasswordFrom {
    File(PathBuf),
    Variable(String),
}

impl FromStr for PostgresAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (_, rest) = text.split_once("://").ok_or_else(|| invalid("a Postgres URL has no '://'"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, _) = place.split_once('/').unwrap_or((place, ""));
        if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(invalid("a Postgres URL must not have a password in it: others can read a command line"));
        }
        let (mut tls, mut ca, mut password, mut others) = (None, None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", mode)) => tls = Some(Tls::parse(mode)?),
                Some(("sslrootcert", "system")) => ca = None,
                Some(("sslrootcert", file)) => ca = Some(PathBuf::from(file)),
                Some(("password", from)) => password = Some(PasswordFrom::parse(from)?),
                _ => others.push(pair),
            }
        }
        let rest = format!("postgres://{place}?{}", others.join("&"));
        // Its source is not told: it may repeat what it could not read.
        let mut config: Config = rest.parse().map_err(|_| invalid("a Postgres URL cannot be read"))?;
        if config.get_user().is_none() || config.get_dbname().is_none() || config.get_hosts().is_empty() {
            return Err(invalid("a Postgres URL names a user, a host and a database"));
        }
        let tls = tls.unwrap_or(if config.get_hosts().iter().all(is_here) { Tls::Disable } else { Tls::VerifyFull });
        config.ssl_mode(tls.mode());
        config.connect_timeout(config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5)));
        config.tcp_user_timeout(SILENCE);
        config.keepalives_idle(SILENCE / 3).keepalives_interval(SILENCE / 3).keepalives_retries(2);
        if config.get_application_name().is_none() {
            config.application_name("keylane");
        }
        Ok(Self { shown: text.into(), config, tls, ca, password })
    }
}

impl PostgresAddress {
    /// What a connection is made with; the password is read now.
    pub(super) fn config(&self) -> Result<Config, Error> {
        let mut config = self.config.clone();
        let password = match &self.password {
            Some(PasswordFrom::File(file)) => Some(fs::read_to_string(file).map_err(|e| {
                Error::Refused(
                    Detail::new(format!("cannot read the database's password from {}", file.display())).because(e),
                )
            })?),
            Some(PasswordFrom::Variable(name)) => Some(std::env::var(name).map_err(|_| {
                Error::Refused(Detail::new(format!("the variable {name}, for the database's password, is not set")))
            })?),
            None => std::env::var("PGPASSWORD").ok(),
        };
        if let Some(password) = password {
            config.password(password.trim_end_matches(['\n', '\r']));
        }
        Ok(config)
    }

    /// How TLS is spoken, where it is.
    pub(super) fn connector(&self) -> Result<MakeTlsConnector, Error> {
        let failed = |e: openssl::error::ErrorStack| {
            Error::Refused(
                Detail::new("cannot set up TLS for the database").remedy("check sslrootcert: a PEM file").because(e),
            )
        };
        let mut builder = SslConnector::builder(SslMethod::tls()).map_err(failed)?;
        match (&self.ca, self.tls) {
            (_, Tls::Disable | Tls::Prefer | Tls::Require) => builder.set_verify(SslVerifyMode::NONE),
            (Some(ca), _) => builder.set_ca_file(ca).map_err(failed)?,
            (None, _) => {
                let found = openssl_probe::probe();
                builder.load_verify_locations(found.cert_file.as_deref(), None).map_err(failed)?;
            }
        }
        let mut connector = MakeTlsConnector::new(builder.build());
        if self.tls != Tls::VerifyFull {
            connector.set_callback(|connection, _| {
                connection.set_verify_hostname(false);
                Ok(())
            });
        }
        Ok(connector)
    }
}

impl Tls {
    fn parse(mode: &str) -> Result<Self, Error> {
        Ok(match mode {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(invalid("sslmode is disable, prefer, require, verify-ca or verify-full")),
        })
    }

    fn mode(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

impl PasswordFrom {
    fn parse(from: &str) -> Result<Self, Error> {
        match from.split_once(':') {
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("env", name)) => Ok(Self::Variable(name.into())),
            _ => Err(invalid("a password is named by file:PATH or env:NAME, never written out")),
        }
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn invalid(what: &str) -> Error {
    Error::Invalid(Detail::new(what).remedy(FORM))
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_refused_and_never_repeated() {
        for url in [
            "postgres://ann:s3cret@db.example/shop",
            "postgres://ann@db.example/shop?password=s3cret",
            "postgres://ann@db.example:s3cret/shop",
        ] {
            let error = url.parse::<PostgresAddress>().unwrap_err();
            assert!(matches!(error, Error::Invalid(_)) && error.detail().remedy_text().is_some());
            assert!(!format!("{error} {error:?} {}", error.detail().chain()).contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn a_password_is_read_from_where_it_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "s3cret\n").unwrap();
        let url = format!("postgres://ann@127.0.0.1/shop?password=file:{}", file.path().display());
        let address: PostgresAddress = url.parse().unwrap();
        assert_eq!(address.config().unwrap().get_password(), Some(&b"s3cret"[..]));
        assert!(!format!("{address} {address:?}").contains("s3cret"));
        let missing: PostgresAddress = "postgres://ann@127.0.0.1/shop?password=file:/nowhere".parse().unwrap();
        assert!(matches!(missing.config(), Err(Error::Refused(_))));
    }

    #[test]
    fn another_machine_must_prove_who_it_is_unless_told_otherwise() {
        let tls = |url: &str| url.parse::<PostgresAddress>().unwrap().tls;
        assert_eq!(tls("postgres://ann@db.example/shop"), Tls::VerifyFull);
        assert_eq!(tls("postgres://ann@db.example,localhost/shop"), Tls::VerifyFull);
        assert_eq!(tls("postgres://ann@db.example/shop?sslmode=require"), Tls::Require);
        assert_eq!(tls("postgres://ann@127.0.0.1,localhost/shop"), Tls::Disable);
    }

    #[test]
    fn what_is_missing_is_said() {
        for url in
            ["postgres://db.example/shop", "postgres://ann@db.example", "postgres:///shop?user=ann", "postgres:x"]
        {
            assert!(matches!(url.parse::<PostgresAddress>(), Err(Error::Invalid(_))), "{url}");
        }
    }
}
