//! Where a request goes. Only scheme, host and port of it are ever shown.

use std::{fmt, net::IpAddr, str::FromStr};

use hyper::Uri;

use crate::exit::{Code, Failure};

/// `https://HOST[:PORT]/PATH?QUERY`, or `http://` on this machine.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    is_tls: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    authority: String,
    port: u16,
    target: String,
}

impl Address {
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as a request names them.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }
}

impl FromStr for Address {
    type Err = String;

    /// What is wrong never repeats the text: it may hold a secret.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_| "no URL".to_owned())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("not https://HOST/PATH, or http:// on this machine".to_owned()),
        };
        let authority = uri.authority().filter(|a| !a.host().is_empty()).ok_or("a URL without a host")?;
        if authority.as_str().contains('@') {
            return Err("a URL with a user or password in it: give a secret by file or environment".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_tls && !is_here {
            return Err("plain http goes to this machine only: use https".to_owned());
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { is_tls, host, authority: authority.as_str().to_owned(), port, target })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address as it was given on the command line, where an error would repeat it: what is wrong with it is told when it is used.
#[derive(Clone, Debug)]
pub(crate) struct GivenAddress(Result<Address, String>);

impl GivenAddress {
    /// Never fails.
    #[expect(clippy::unnecessary_wraps, reason = "the form of a parser of the command line")]
    pub(crate) fn of(text: &str) -> Result<Self, String> {
        Ok(Self(text.parse()))
    }

    /// The address, if it is one.
    pub(crate) fn address(&self, flag: &str) -> Result<Address, Failure> {
        self.0.clone().map_err(|why| {
            Failure::new(Code::Usage, format!("what {flag} names cannot be asked"))
                .cause(why)
                .remedy("give it https://HOST/PATH, or http:// on this machine")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_or_of_this_machine() {
        for good in
            ["https://host.example/put?sig=abc", "http://127.0.0.1:8080/x", "http://[::1]:1/", "http://localhost"]
        {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        let bad = [
            "http://host.example/x",
            "http://10.0.0.1/x",
            "http://127.0.0.1.evil.example/",
            "http://localhost@evil.example/",
            "https://me:MARKER@host/x",
            "ftp://host/x",
            "host:80",
            "/x",
            "https://",
            "",
        ];
        for bad in bad {
            let error = bad.parse::<Address>().unwrap_err();
            assert!(!error.contains("MARKER"), "{error}");
        }
    }

    #[test]
    fn of_an_address_only_its_host_is_shown() {
        let address: Address = "https://host.example:444/up/load?X-Signature=MARKER".parse().unwrap();
        assert_eq!(format!("{address} {address:?}"), "https://host.example:444 https://host.example:444");
        assert_eq!((address.target(), address.port()), ("/up/load?X-Signature=MARKER", 444));
        let six: Address = "https://[2001:db8::1]/".parse().unwrap();
        assert_eq!((six.host(), six.port(), six.authority()), ("2001:db8::1", 443, "[2001:db8::1]"));
    }
}
