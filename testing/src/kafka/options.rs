//! What a cluster is asked to be.

use std::{fmt::Write as _, path::Path};

use crate::tls::Certificates;

/// A cluster to start.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) brokers: usize,
    pub(super) properties: Vec<(String, String)>,
    pub(super) security: Security,
}

/// How its users reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Plaintext,
    Secured,
    Authorized,
}

/// The user that a secured cluster starts with.
pub(super) const USER: &str = "alice";
pub(super) const PASSWORD: &str = "alice-secret";

/// A node's ports on 127.0.0.1.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    /// What the cluster's users see.
    pub(super) client: u16,
    /// Between brokers, and for the side tool: always plain, and with all rights.
    pub(super) internal: u16,
    pub(super) controller: u16,
}

impl Options {
    /// One broker (nothing is replicated), or three (3 replicas, 2 in sync: what users run).
    ///
    /// # Panics
    ///
    /// With any other number.
    pub fn new(brokers: usize) -> Self {
        assert!(brokers == 1 || brokers == 3, "a cluster has 1 or 3 brokers, not {brokers}");
        Self { brokers, properties: Vec::new(), security: Security::Plaintext }
    }

    /// With this property of the brokers' configuration; it wins over the defaults here.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// With TLS, and with SASL by SCRAM-SHA-256 and PLAIN (see [`Login`](super::Login)) and by OAUTHBEARER, which takes
    /// any unsecured token.
    #[must_use]
    pub fn secured(mut self) -> Self {
        self.security = Security::Secured;
        self
    }

    /// [Secured](Self::secured), and a user may do what an access control list allows, so nothing at first.
    #[must_use]
    pub fn authorized(mut self) -> Self {
        self.security = Security::Authorized;
        self
    }

    /// The configuration of one node; the first has the index 0 and the id 1.
    pub(super) fn configuration(
        &self,
        index: usize,
        ports: &[Ports],
        data: &Path,
        certificates: Option<&Certificates>,
    ) -> String {
        let voters: Vec<_> =
            ports.iter().enumerate().map(|(i, p)| format!("{}@127.0.0.1:{}", i + 1, p.controller)).collect();
        let Ports { client, internal, controller } = ports[index];
        let protocol = if certificates.is_some() { "SASL_SSL" } else { "PLAINTEXT" };
        let (replicas, in_sync) = if self.brokers == 1 { (1, 1) } else { (3, 2) };
        let mut text = format!(
            "process.roles=broker,controller\n\
             node.id={}\n\
             controller.quorum.voters={}\n\
             controller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=INTERNAL\n\
             listeners=CLIENT://127.0.0.1:{client},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller}\n\
             listener.security.protocol.map=CLIENT:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\n\
             auto.create.topics.enable=false\n\
             default.replication.factor={replicas}\n\
             min.insync.replicas={in_sync}\n\
             offsets.topic.num.partitions=4\n\
             offsets.topic.replication.factor={replicas}\n\
             transaction.state.log.num.partitions=4\n\
             transaction.state.log.replication.factor={replicas}\n\
             transaction.state.log.min.isr={in_sync}\n\
             group.initial.rebalance.delay.ms=0\n\
             group.min.session.timeout.ms=1000\n\
             log.cleaner.dedupe.buffer.size=4194304\n",
            index + 1,
            voters.join(","),
            data.display(),
        );
        if let Some(certificates) = certificates {
            text += &secure(certificates);
        }
        if self.security == Security::Authorized {
            text += "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n";
            text += "super.users=User:ANONYMOUS\n"; // who comes by the internal listener
        }
        for (name, value) in &self.properties {
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }
}

/// The client listener's properties.
fn secure(certificates: &Certificates) -> String {
    let key_store = certificates.key_store.display();
    let common = "org.apache.kafka.common.security";
    let listener = "listener.name.client";
    format!(
        "{listener}.ssl.keystore.type=PEM\n\
         {listener}.ssl.keystore.location={key_store}\n\
         {listener}.sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN,OAUTHBEARER\n\
         {listener}.scram-sha-256.sasl.jaas.config={common}.scram.ScramLoginModule required;\n\
         {listener}.plain.sasl.jaas.config={common}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n\
         {listener}.oauthbearer.sasl.jaas.config={common}.oauthbearer.OAuthBearerLoginModule required \
         unsecuredLoginStringClaim_sub=\"broker\";\n"
    )
}
