//! What a server is asked to be.

use std::fmt::Write as _;

use super::clock::WrongClock;
use crate::tls::Certificates;

/// A server to start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    pub(super) tls: bool,
    pub(super) disk: Option<u32>,
    pub(super) clock: Option<WrongClock>,
}

impl Options {
    /// With this setting of `postgresql.conf`; it wins over the defaults here.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// With TLS, and without it no connection of a user other than the superuser.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With its data on a disk of so many megabytes, which a test can fill. Root only: it is mounted.
    #[must_use]
    pub fn disk(mut self, megabytes: u32) -> Self {
        self.disk = Some(megabytes);
        self
    }

    /// By this clock.
    #[must_use]
    pub fn clock(mut self, clock: &WrongClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    pub(super) fn configuration(&self, port: u16, certificates: Option<&Certificates>) -> String {
        // A killed process loses nothing that it has given to the system, so nothing here waits for a disk.
        let mut text = format!(
            "port = {port}\n\
             listen_addresses = '127.0.0.1'\n\
             unix_socket_directories = ''\n\
             max_connections = 300\n\
             shared_buffers = 32MB\n\
             fsync = off\n\
             password_encryption = 'scram-sha-256'\n\
             timezone = 'UTC'\n"
        );
        if let Some(certificates) = certificates {
            let key_store = certificates.key_store.display();
            let _ = writeln!(text, "ssl = on\nssl_cert_file = '{key_store}'\nssl_key_file = '{key_store}'");
        }
        for (name, value) in &self.settings {
            let _ = writeln!(text, "{name} = '{value}'");
        }
        text
    }

    /// Members of the role `with_password`, if a test makes it, log in by SCRAM-SHA-256; everybody else by name.
    pub(super) fn access(&self) -> String {
        let (superuser, others) = (super::USER, if self.tls { "hostssl" } else { "host" });
        format!(
            "host all {superuser} 127.0.0.1/32 trust\n\
             host replication {superuser} 127.0.0.1/32 trust\n\
             {others} all +with_password 127.0.0.1/32 scram-sha-256\n\
             {others} all all 127.0.0.1/32 trust\n"
        )
    }
}
