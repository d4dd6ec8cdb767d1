//! Speaking to Apache Kafka: what the log's and the group's adapters share.
//!
//! - [`servers`], [`settings`]: where the brokers are, what may be passed through to librdkafka, and which of it would break a rule
//! - [`codecs`]: what this build can decompress
//! - [`context`]: what a client hears from librdkafka besides answers: the reasons that its answers leave out
//! - [`token`]: tokens for clients that nobody polls
//! - [`events`], [`consumer`]: a consumer, and what it has to tell
//! - [`message`]: a message as librdkafka holds it, to a [`crate::Record`] and back, byte for byte

pub mod codecs;
pub mod consumer;
pub mod context;
pub mod events;
pub mod message;
pub mod servers;
pub mod settings;
pub mod token;

pub use context::KafkaContext;
pub use servers::KafkaServers;
pub use settings::{KafkaSettings, PropertySource};

/// What other crates of ours need of the client library, so that one version of it is named in one place.
pub use rdkafka;

/// For bounds of waiting and for how fresh a reason is: a machine that sleeps meanwhile may wait longer. Nothing of
/// ownership counts on it.
#[expect(clippy::disallowed_methods, reason = "no deadline of ownership hangs on it")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}
