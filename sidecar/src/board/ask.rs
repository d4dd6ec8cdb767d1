//! Finding sidecars and asking them, once a round. A sidecar that hangs delays nobody: each has its own time.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use super::{Now, merge::Trouble, record::Record};
use crate::{
    intake::{LARGEST_ANSWER, read_of_worker},
    snapshot::Snapshot,
};

/// So long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Names are looked up again after this long.
const RESOLVE_EVERY_MS: u64 = 10_000;
/// Sidecars that are asked at once.
const AT_ONCE: usize = 64;

/// Where sidecars are: an address, or a name that stands for all of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(String);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A sidecar prints its address as a URL.
        let bare = text.strip_prefix("http://").map_or(text, |rest| rest.strip_suffix('/').unwrap_or(rest));
        let is_host = |host: &str| {
            !host.is_empty() && !host.contains(['/', '?', '#', '@']) && !host.contains(char::is_whitespace)
        };
        let port = bare.rsplit_once(':').filter(|(host, _)| is_host(host)).map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(port)) if port > 0 => Ok(Self(bare.to_owned())),
            _ => Err("not HOST:PORT or http://HOST:PORT".to_owned()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody is there.
    #[error("cannot connect")]
    Connect(#[from] std::io::Error),
    /// What came is no HTTP, or ended early.
    #[error("no answer by HTTP")]
    Http(#[from] hyper::Error),
    /// The answer is too long, or broke off.
    #[error("the answer is longer than is read, or broke off")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The address makes no request.
    #[error("not an address that can be asked")]
    Address,
    /// It took too long.
    #[error("no answer in time")]
    Late,
}

/// Asks each sidecar every `every` and looks as often, until the task is dropped. Who listens hears of each look.
pub async fn watch_sidecars(
    targets: Vec<Target>,
    every: Duration,
    record: Arc<Mutex<Record>>,
    looked: watch::Sender<u64>,
) {
    let mut addresses = Addresses { targets, known: BTreeMap::new(), resolved_ms: None };
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut asking: JoinSet<String> = JoinSet::new();
    // Who has not answered the last question is not asked another one.
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let look = || {
        locked(&record).look(Now::read());
        looked.send_modify(|looks| *looks += 1);
    };
    loop {
        tokio::select! {
            _ = rounds.tick() => {
                let sources = addresses.current().await;
                locked(&record).merge.expect(sources.iter().map(|(name, _)| name.as_str()), Now::read());
                for (name, address) in sources {
                    if asked.insert(name.clone()) {
                        asking.spawn(ask_and_keep(name, address, Arc::clone(&places), Arc::clone(&record)));
                    }
                }
                look();
            }
            Some(answered) = asking.join_next() => {
                // A task of ours that panicked names nobody: then everybody may be asked again.
                match answered {
                    Ok(name) => _ = asked.remove(&name),
                    Err(_) => asked.clear(),
                }
                if asked.is_empty() {
                    look();
                }
            }
        }
    }
}

/// Asks one sidecar and keeps what it said; answers its name.
async fn ask_and_keep(
    name: String,
    address: Option<SocketAddr>,
    places: Arc<Semaphore>,
    record: Arc<Mutex<Record>>,
) -> String {
    let _place = places.acquire().await;
    let asked = Now::read();
    let answer = match address {
        Some(address) => ask(address).await,
        None => Err(Trouble::Away),
    };
    let mut record = locked(&record);
    match answer {
        Ok(said) => {
            record.asked.ok += 1;
            record.merge.hear(&name, said, asked);
        }
        Err(trouble) => {
            match trouble {
                Trouble::Away => record.asked.missing += 1,
                Trouble::Unreadable | Trouble::Elsewhere => record.asked.invalid += 1,
            }
            record.merge.miss(&name, trouble);
        }
    }
    name
}

/// The memory; a thread that panicked while it held it leaves it as it was.
pub(super) fn locked(record: &Mutex<Record>) -> std::sync::MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(address: SocketAddr) -> Result<Snapshot, Trouble> {
    let (status, answer) = get(&address.to_string(), "/v1/snapshot").await.map_err(|_| Trouble::Away)?;
    // A sidecar without a worker's word yet says so by another status.
    if status != 200 {
        return Err(Trouble::Unreadable);
    }
    read_of_worker(&answer).map_err(|_| Trouble::Unreadable)
}

/// Status and body of one GET over plain HTTP; nothing is followed, and nothing that comes back is acted on.
///
/// # Errors
///
/// [`NoAnswer`] if there is none within two seconds.
pub async fn get(host: &str, path: &str) -> Result<(u16, Bytes), NoAnswer> {
    timeout(ANSWER_WITHIN, async {
        let stream = TcpStream::connect(host).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = hyper::Request::get(path).header("host", host).header("accept", "application/json");
        let request = request.body(Empty::<Bytes>::new()).map_err(|_| NoAnswer::Address)?;
        let answered = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), LARGEST_ANSWER).collect().await.map_err(NoAnswer::Body)?;
            Ok((status, body.to_bytes()))
        };
        tokio::pin!(answered);
        tokio::pin!(connection);
        tokio::select! {
            answer = &mut answered => answer,
            ended = &mut connection => match ended {
                Ok(()) => answered.await,
                Err(error) => Err(error.into()),
            },
        }
    })
    .await
    .unwrap_or(Err(NoAnswer::Late))
}

/// The addresses that the targets stand for.
struct Addresses {
    targets: Vec<Target>,
    known: BTreeMap<Target, Vec<SocketAddr>>,
    resolved_ms: Option<u64>,
}

impl Addresses {
    /// Each sidecar's name and address; a target that cannot be looked up stands for itself, without one.
    async fn current(&mut self) -> Vec<(String, Option<SocketAddr>)> {
        let now = Now::read();
        if self.resolved_ms.is_none_or(|at| now.since(at) >= RESOLVE_EVERY_MS) {
            self.resolved_ms = Some(now.boot_ms);
            for target in &self.targets {
                let found = timeout(ANSWER_WITHIN, tokio::net::lookup_host(target.0.as_str())).await;
                // A name server that is away makes no sidecar disappear.
                if let Ok(Ok(found)) = found {
                    let mut found: Vec<SocketAddr> = found.collect();
                    found.sort_unstable();
                    found.dedup();
                    self.known.insert(target.clone(), found);
                }
            }
        }
        let mut all = BTreeMap::new();
        for target in &self.targets {
            match self.known.get(target).map(Vec::as_slice) {
                None | Some([]) => _ = all.insert(target.0.clone(), None),
                Some(found) => all.extend(found.iter().map(|address| (address.to_string(), Some(*address)))),
            }
        }
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for good in ["127.0.0.1:9465", "keylane-workers.prod.svc:9465", "[::1]:80"] {
            assert!(good.parse::<Target>().is_ok(), "{good}");
        }
        for url in ["http://127.0.0.1:9465", "http://127.0.0.1:9465/"] {
            assert_eq!(url.parse(), "127.0.0.1:9465".parse::<Target>(), "as a sidecar prints it");
        }
        for bad in ["", "host", "host:", ":80", "host:0", "host:99999", "http://host"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
        for bad in
            ["https://host:80", "http://http://host:80", "ftp://host:80", "host/path:80", "me@host:80", "a host:80"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_name_stands_for_its_addresses_and_one_that_is_not_found_for_itself() {
        let targets = ["127.0.0.1:1", "127.0.0.1:1", "no-such-host.invalid:9"].map(|t| t.parse().unwrap()).to_vec();
        let mut addresses = Addresses { targets, known: BTreeMap::new(), resolved_ms: None };
        let found = addresses.current().await;
        let address = "127.0.0.1:1".parse().unwrap();
        assert_eq!(found, [("127.0.0.1:1".to_owned(), Some(address)), ("no-such-host.invalid:9".to_owned(), None)]);
    }
}
