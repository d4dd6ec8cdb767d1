//! What a client hears from librdkafka besides the answers to its calls.
//!
//! A wrong password or an unknown authority is a plain time-out to the call that waits; the reason comes only by the
//! error callback. It is kept here, and put into the error that the caller gets.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use data_encoding::BASE64URL_NOPAD;
use rdkafka::{
    ClientContext,
    client::OAuthToken,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::KafkaSettings;
use crate::error::{Detail, Error};

/// The same trouble is logged at most once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// A reason is taken for that of a failed call if it is not older than this.
const FRESH: Duration = Duration::from_secs(30);

/// Without a word about it in the token, it is taken to live this long.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// What librdkafka says of a broker that hung up before it said anything.
const OTHER_PROTOCOL: &str = "security.protocol";
const PROTOCOL_REMEDY: &str = "set security.protocol to what this port of the broker speaks: plaintext, ssl, sasl_plaintext or \
                               sasl_ssl";

/// One for each client.
pub struct KafkaContext {
    settings: KafkaSettings,
    heard: Mutex<Heard>,
    /// Counts errors, so that a test or a worker can tell whether there were more.
    errors: AtomicU64,
}

#[derive(Default)]
struct Heard {
    /// The reason that weighs most of late.
    reason: Option<(Instant, RDKafkaErrorCode, String)>,
    fatal: Option<String>,
    logged: Option<(Instant, RDKafkaErrorCode)>,
}

impl KafkaContext {
    /// For a client with these settings.
    pub fn new(settings: KafkaSettings) -> Self {
        Self { settings, heard: Mutex::default(), errors: AtomicU64::new(0) }
    }

    /// What made the client unusable, if anything did.
    pub fn fatal(&self) -> Option<String> {
        self.heard().fatal.clone()
    }

    /// How many errors the client has told so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Sorts a failed call by who must act, with the reason that the call itself does not know.
    pub fn explain(&self, what: impl Into<String>, error: &KafkaError) -> Error {
        let detail = Detail::new(what);
        if let KafkaError::ClientConfig(_, _, name, _) = error {
            // The text of this one has the value in it.
            return Error::Invalid(detail.because(format!("librdkafka does not take '{name}' as it is set")));
        }
        let code = code_of(error);
        let reason = self.reason();
        if let Some(fatal) = self.fatal() {
            return Error::Refused(detail.because(fatal).remedy("this client cannot go on: start the process again"));
        }
        match (code, reason) {
            (Some(code), _) if refusal(code) => Error::Refused(detail.because(error.to_string()).remedy(remedy(code))),
            (_, Some((code, text))) if refusal(code) => Error::Refused(detail.because(text).remedy(remedy(code))),
            (_, Some((code, text))) => {
                // That nobody answered in time says less than why.
                let why = match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::OperationTimedOut) => text.clone(),
                    _ => format!("{error}: {text}"),
                };
                let remedy = if text.contains(OTHER_PROTOCOL) { PROTOCOL_REMEDY } else { remedy(code) };
                Error::Unavailable(detail.because(why).remedy(remedy))
            }
            (_, None) => Error::Unavailable(detail.because(error.to_string())),
        }
    }

    /// Why the brokers refuse this client, if they did of late.
    pub fn refusal(&self, what: &str) -> Option<Error> {
        let (code, text) = self.reason().filter(|(code, _)| refusal(*code))?;
        Some(Error::Refused(Detail::new(what).because(text).remedy(remedy(code))))
    }

    /// What librdkafka told of late, if it weighs.
    fn reason(&self) -> Option<(RDKafkaErrorCode, String)> {
        let heard = self.heard();
        let (at, code, text) = heard.reason.as_ref()?;
        (at.elapsed() < FRESH).then(|| (*code, text.clone()))
    }

    /// Takes an error that came as an event.
    pub fn hear(&self, code: RDKafkaErrorCode, text: &str) {
        // A broker that hung up while it was asked who we are has refused nobody.
        let code = match code {
            RDKafkaErrorCode::Authentication if text.contains("Broker transport failure") => {
                RDKafkaErrorCode::BrokerTransportFailure
            }
            code => code,
        };
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut heard = self.heard();
        if code == RDKafkaErrorCode::Fatal {
            heard.fatal.get_or_insert_with(|| text.to_owned());
        }
        // "All brokers are down" follows the reason why, and says less.
        let weighs = |code| refusal(code) || code != RDKafkaErrorCode::AllBrokersDown;
        let known = heard.reason.as_ref().is_some_and(|(at, known, _)| at.elapsed() < FRESH && weighs(*known));
        if weighs(code) || !known {
            heard.reason = Some((super::now(), code, text.to_owned()));
        }
        let again = heard.logged.is_some_and(|(at, last)| at.elapsed() < QUIET && last == code);
        if !again {
            heard.logged = Some((super::now(), code));
            tracing::warn!(target: "keylane::kafka", ?code, "{text}");
        }
    }

    /// Whether it was said where a token is.
    pub(super) fn logs_in_by_token(&self) -> bool {
        self.settings.has_oauth_token()
    }

    /// A token for SASL OAUTHBEARER: what the file or variable holds now, with the name and the end that it tells.
    ///
    /// # Errors
    /// Why there is none.
    pub fn token(&self) -> Result<OAuthToken, Error> {
        let token = self.settings.oauth_token().unwrap_or_else(|| {
            Err(Error::Invalid(
                Detail::new("SASL OAUTHBEARER needs a token")
                    .remedy("say where it is: keylane.oauthbearer.token=file:PATH"),
            ))
        })?;
        let claims = token.split('.').nth(1).and_then(|part| BASE64URL_NOPAD.decode(part.as_bytes()).ok());
        let claims: serde_json::Value =
            claims.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or(serde_json::Value::Null);
        let named = ["sub", "client_id", "azp"].iter().find_map(|name| claims[*name].as_str());
        let principal_name = named.unwrap_or("keylane").to_owned();
        let ends = claims["exp"].as_f64().map(|seconds| (seconds * 1_000.0) as i64);
        let lifetime_ms = ends.unwrap_or_else(|| after(DEFAULT_LIFETIME));
        Ok(OAuthToken { token, principal_name, lifetime_ms })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since 1970 UTC, so long from now.
fn after(time: Duration) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from((now + time).as_millis()).unwrap_or(i64::MAX)
}

impl ClientContext for KafkaContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if message.contains(OTHER_PROTOCOL) {
            self.hear(RDKafkaErrorCode::BrokerTransportFailure, message);
        }
        // What matters comes as an error too; the log is for those who ask for it.
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::error!(target: "keylane::kafka", facility, "{message}");
            }
            RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
                tracing::info!(target: "keylane::kafka", facility, "{message}");
            }
            _ => tracing::debug!(target: "keylane::kafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        if code != RDKafkaErrorCode::PartitionEOF {
            self.hear(code, reason);
        }
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.token().map_err(|error| error.detail().chain().into())
    }
}

impl ConsumerContext for KafkaContext {}

/// rust-rdkafka leaves out those of admin operations.
fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        _ => error.rdkafka_error_code(),
    }
}

/// Whether trying again changes nothing: a person must act.
fn refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Authentication
            | Code::SSL
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
    )
}

fn remedy(code: RDKafkaErrorCode) -> &'static str {
    use RDKafkaErrorCode as Code;
    match code {
        Code::SSL => "check ssl.ca.location, and that the certificate names the host in the address",
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState => {
            "check security.protocol, sasl.mechanism, sasl.username and sasl.password against what the broker expects"
        }
        Code::TopicAuthorizationFailed => "let an administrator allow this user to use the queue's topic",
        Code::GroupAuthorizationFailed => "let an administrator allow this user to read in the consumer group",
        Code::ClusterAuthorizationFailed | Code::TransactionalIdAuthorizationFailed => {
            "let an administrator allow it to this user"
        }
        Code::Resolve => "check the host names in the address",
        // Whatever else keeps a broker away comes with a reason of its own.
        Code::AllBrokersDown => {
            "check that security.protocol is what this port of the broker speaks (a broker hangs up without a word if it \
             is not), and that the brokers are up"
        }
        _ => "check the address, and that the brokers are up and reachable from here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> KafkaContext {
        KafkaContext::new(KafkaSettings::new("a".parse().unwrap()))
    }

    fn timed_out() -> KafkaError {
        KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut)
    }

    #[test]
    fn a_wrong_password_is_named_as_that_and_not_as_a_time_out() {
        let context = context();
        context.hear(RDKafkaErrorCode::Authentication, "SASL authentication failed");
        context.hear(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        let error = context.explain("cannot look at the cluster", &timed_out());
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert!(error.detail().chain().contains("SASL authentication failed"));
        assert!(error.detail().remedy_text().unwrap().contains("sasl.password"));
    }

    #[test]
    fn a_broker_that_is_away_is_worth_another_try() {
        let context = context();
        assert!(context.explain("x", &timed_out()).is_transient());
        context.hear(RDKafkaErrorCode::BrokerTransportFailure, "connection refused");
        let error = context.explain("x", &timed_out());
        assert!(error.is_transient() && error.detail().chain().contains("connection refused"), "{error:?}");
    }

    #[test]
    fn a_broker_that_hung_up_during_the_log_in_refused_nobody() {
        let context = context();
        context.hear(RDKafkaErrorCode::Authentication, "SASL handshake failed: Local: Broker transport failure");
        assert!(context.explain("x", &timed_out()).is_transient());
    }

    #[test]
    fn no_value_is_in_the_text_of_a_refused_setting() {
        let value = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "MARKER".into(),
            "sasl.password".into(),
            "MARKER".into(),
        );
        let error = context().explain("x", &value);
        assert!(!error.detail().chain().contains("MARKER") && error.detail().chain().contains("sasl.password"));
    }

    #[test]
    fn a_token_tells_whose_it_is_and_how_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let part = |json: &str| BASE64URL_NOPAD.encode(json.as_bytes());
        let token = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(r#"{"sub":"alice","exp":4102444800}"#));
        std::fs::write(&path, &token).unwrap();
        let mut settings = KafkaSettings::new("a".parse().unwrap());
        let assignment = format!("keylane.oauthbearer.token=file:{}", path.display());
        settings.set(&assignment, super::super::PropertySource::Flag).unwrap();
        let read = KafkaContext::new(settings).token().unwrap();
        assert_eq!((read.token, read.principal_name, read.lifetime_ms), (token, "alice".into(), 4_102_444_800_000));
    }
}
