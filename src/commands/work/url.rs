//! A handler behind a URL of this machine: each job is a POST, its answer a status and perhaps a body. `docs/handlers.md` is the
//! same for people who write one; decision 0014 says why it is so.
//!
//! 1. On this machine only, whatever a name stands for: a name is looked up at each connecting, and no other address is asked. No
//!    redirect is followed, no proxy asked.
//! 2. While nobody listens the job waits, within its limit of time: nothing was sent, so nothing is unknown. What was sent and has
//!    no answer is unknown, and the attempt has failed.
//! 3. A request that is not wanted any more (its partition is lost, its time is over) ends with its connection.
//! 4. The fence goes out in one header, marked as sensitive, if it was asked for. No word of the other side that is told or kept
//!    repeats it.

mod answer;

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request,
    client::conn::http1::{self, SendRequest},
    header::{self, HeaderValue},
};
use hyper_util::rt::TokioIo;
use keylane_consumer::{
    FencedStore, Handler,
    clock::{BootTime, Clock},
    fence::redacted,
    handler::{JobContext, Outcome, child::job_line},
};
use tokio::net::TcpStream;

use crate::{
    exit::{Code, Failure},
    remote::Address,
};
use answer::Answer;

/// Of an answer's head, and as much as is read of its body at once.
const LARGEST_HEAD: usize = 64 << 10;
/// How soon to try again while nobody listens.
const SOON: Duration = Duration::from_millis(100);
/// A connection that was idle for longer is not used again: its other side may be about to close it.
const IDLE: Duration = Duration::from_secs(1);

/// Where, and its limits.
pub(super) struct UrlSettings {
    pub(super) address: Address,
    /// How long one job may take.
    pub(super) limit: Duration,
    /// The longest answer's body, in bytes.
    pub(super) answer_cap: usize,
    /// Whether a request has what `keylane.admit` wants, where the store gives it out.
    pub(super) fence: bool,
}

/// See the module's docs.
pub(super) struct UrlHandler {
    settings: UrlSettings,
    idle: Mutex<Vec<(Sender, BootTime)>>,
    clock: Clock,
}

type Sender = SendRequest<Full<Bytes>>;

/// Why an attempt came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("no answer from the handler's URL within {0} ms: what came of the job is not known")]
    Late(u128),
    #[error("nobody listens at the handler's URL: {0}")]
    Nobody(String),
    #[error("the handler's connection broke before its answer: what came of the job is not known")]
    Broke,
    #[error("the handler's answer is longer than {0} bytes, or broke off")]
    Body(usize),
}

impl UrlHandler {
    /// Connects to nobody yet.
    pub(super) fn new(settings: UrlSettings) -> Result<Self, Failure> {
        if settings.address.is_tls() {
            return Err(Failure::new(Code::Usage, "a handler's URL is one of this machine, by plain http").remedy(
                "write http://localhost:PORT/PATH; for another machine start a program with --exec that asks it",
            ));
        }
        Ok(Self { settings, idle: Mutex::default(), clock: Clock::boot() })
    }

    async fn attempt(&self, context: &JobContext) -> Result<Answer, Failed> {
        let limit = self.settings.limit;
        let since = self.clock.now();
        match tokio::time::timeout(limit, self.reached(context, since)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failed::Late(limit.as_millis())),
        }
    }

    /// Asks, over a connection that was used before or else a new one.
    async fn reached(&self, context: &JobContext, since: BootTime) -> Result<Answer, Failed> {
        let mut request = self.request(context);
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(answer) => return self.read(sender, answer).await,
                Err(mut error) => match error.take_message() {
                    // The connection had ended; nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(Failed::Broke),
                },
            }
        }
        let mut sender = self.connect(since).await?;
        let answer = sender.send_request(request).await.map_err(|_| Failed::Broke)?;
        self.read(sender, answer).await
    }

    async fn connect(&self, since: BootTime) -> Result<Sender, Failed> {
        let to = &self.settings.address;
        loop {
            let why = match connected(to).await {
                Ok(stream) => {
                    let mut client = http1::Builder::new();
                    let hands = client.max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(stream)).await;
                    let (sender, connection) = hands.map_err(|_| Failed::Broke)?;
                    tokio::spawn(async move { drop(connection.await) });
                    return Ok(sender);
                }
                Err(why) => why,
            };
            // The last word before the time is over tells more than that it is.
            if self.clock.now().since(since) + 2 * SOON >= self.settings.limit {
                return Err(Failed::Nobody(why));
            }
            tokio::time::sleep(SOON).await;
        }
    }

    fn request(&self, context: &JobContext) -> Request<Full<Bytes>> {
        let (to, job) = (&self.settings.address, &context.job);
        let mut request = Request::post(to.target())
            .header(header::HOST, to.authority())
            .header(header::USER_AGENT, concat!("keylane/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", format!("\"{}\"", job.id.as_str()))
            .header("keylane-attempt", context.attempt.0)
            .header("keylane-timeout-ms", u64::try_from(self.settings.limit.as_millis()).unwrap_or(u64::MAX));
        if let Some(fence) = self.settings.fence.then(|| context.sensitive_fence()).flatten() {
            let mut value = HeaderValue::from_str(fence.reveal()).expect("it is made of letters and digits");
            value.set_sensitive(true);
            request = request.header("keylane-sensitive-fence", value);
        }
        request.body(Full::new(job_line(context, self.settings.limit).into())).expect("its parts are checked")
    }

    async fn read(&self, sender: Sender, answer: hyper::Response<hyper::body::Incoming>) -> Result<Answer, Failed> {
        let (head, body) = answer.into_parts();
        let most = self.settings.answer_cap;
        let body = Limited::new(body, most).collect().await.map_err(|_| Failed::Body(most))?.to_bytes();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push((sender, self.clock.now()));
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_json = text(header::CONTENT_TYPE).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        Ok(Answer { status: head.status.as_u16(), is_json, retry_after: text(header::RETRY_AFTER), body })
    }

    fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        idle.retain(|(sender, since)| !sender.is_closed() && now.since(*since) < IDLE);
        // Of one that is not ready its other side still owes something.
        let at = idle.iter().rposition(|(sender, _)| sender.is_ready())?;
        Some(idle.swap_remove(at).0)
    }
}

async fn connected(to: &Address) -> Result<TcpStream, String> {
    let found =
        tokio::net::lookup_host((to.host(), to.port())).await.map_err(|_| "its name is not known".to_owned())?;
    let here = of_this_machine(found)?;
    let stream = TcpStream::connect(here.as_slice()).await.map_err(|error| error.to_string())?;
    // A job is one small request: it is not to wait for more.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Whatever a name stands for, a job and its fence go to no other machine.
fn of_this_machine(found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, String> {
    let here: Vec<SocketAddr> = found.filter(|at| at.ip().is_loopback()).collect();
    if here.is_empty() { Err("its name is of another machine".to_owned()) } else { Ok(here) }
}

impl<S: FencedStore> Handler<S> for UrlHandler {
    async fn run(&self, context: JobContext) -> Outcome<S> {
        match self.attempt(&context).await {
            Ok(answer) => answer.outcome(&context.job.id, jiff::Timestamp::now()),
            Err(failed) => Outcome::retry(redacted(&failed.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_other_machines_too_is_asked_on_this_one_alone() {
        let at = |address: &str| address.parse::<SocketAddr>().unwrap();
        let (here, elsewhere) = (["127.0.0.1:80", "[::1]:80"].map(at), ["192.0.2.1:80", "[2001:db8::1]:80"].map(at));
        assert_eq!(of_this_machine(here.into_iter().chain(elsewhere)), Ok(here.to_vec()));
        assert!(of_this_machine(elsewhere.into_iter()).unwrap_err().contains("another machine"));
    }
}
