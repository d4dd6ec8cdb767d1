//! Where the brokers are.

use std::{fmt, str::FromStr};

use crate::error::{Detail, Error};

/// The port of a broker that is named without one.
const DEFAULT_PORT: u16 = 9092;

/// The bootstrap list: `host:port`, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaServers(Box<str>);

impl FromStr for KafkaServers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |rule: String| {
            Err(Error::Invalid(Detail::new(rule).remedy("write kafka://HOST:PORT, more brokers after commas")))
        };
        if text.contains('@') {
            // Not even a part of it is printed: it may be the password.
            return Err(Error::Invalid(
                Detail::new("a Kafka address has no user or password in it").remedy(
                    "give them as properties: --kafka-property sasl.username=NAME, and sasl.password=file:PATH",
                ),
            ));
        }
        let mut servers = Vec::new();
        for server in text.trim_end_matches('/').split(',') {
            let (host, port) = match server.rsplit_once(':') {
                // The last colon of a bare IPv6 address is not before a port.
                Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
                _ => (server, None),
            };
            let fits = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
            if host.is_empty() || !host.chars().all(fits) {
                return wrong(format!("'{server}' names no broker"));
            }
            match port.map(str::parse::<u16>) {
                None => servers.push(format!("{host}:{DEFAULT_PORT}")),
                Some(Ok(port)) if port > 0 => servers.push(format!("{host}:{port}")),
                Some(_) => return wrong(format!("the port of '{server}' is not a number from 1 to 65535")),
            }
        }
        Ok(Self(servers.join(",").into()))
    }
}

impl fmt::Display for KafkaServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> String {
        text.parse::<KafkaServers>().map_or_else(|e| format!("refused: {e}"), |servers| servers.to_string())
    }

    #[test]
    fn brokers_are_hosts_with_ports() {
        for (text, read) in [
            ("a", "a:9092"),
            ("a:1,b:2", "a:1,b:2"),
            ("a,b/", "a:9092,b:9092"),
            ("10.0.0.1:9093", "10.0.0.1:9093"),
            ("[::1]:9093", "[::1]:9093"),
            ("[::1]", "[::1]:9092"),
        ] {
            assert_eq!(servers(text), read, "{text}");
        }
    }

    #[test]
    fn what_is_no_broker_is_named() {
        assert!(servers("").contains("names no broker"));
        assert!(servers("a,,b").contains("names no broker"));
        assert!(servers("a b:1").contains("'a b:1' names no broker"));
        assert!(servers("a:0").contains("1 to 65535"));
        assert!(servers("a:x").contains("1 to 65535"));
    }

    #[test]
    fn a_password_in_the_address_is_refused_unseen() {
        let refused = servers("user:hunter2@kafka:9092");
        assert!(refused.contains("no user or password") && !refused.contains("hunter2"), "{refused}");
    }
}
