//! A connection that is cut in the middle of COMMIT: the outcome is unknown, and the write is tried again.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

use keylane_testing::postgres::shared;

use super::{BaseRig, Database, Pooled, PostgresStore, Twin, Way as _, until};
use crate::store::{
    StoreSession,
    conformance::{P0, Place, letters},
};

/// To the server; the COMMIT; to the client.
type Kept = Option<(TcpStream, Vec<u8>, TcpStream)>;

/// A proxy that can cut a connection at its COMMIT.
pub(super) struct Proxy {
    port: u16,
    pub(super) cut: Arc<AtomicU8>,
    /// A connection to the server whose COMMIT was kept, and the COMMIT.
    kept: Arc<Mutex<Kept>>,
}

const PASS: u8 = 0;
/// The server gets the COMMIT; its answer is lost.
pub(super) const LOSE_ANSWER: u8 = 1;
/// The server does not get it yet, and does not know that the client is gone.
const KEEP_COMMIT: u8 = 2;
/// The server does not get it yet, and the client waits for the answer until [`Proxy::lose_client`].
pub(super) const KEEP_BOTH: u8 = 3;

impl Proxy {
    /// Before the server.
    pub(super) fn start() -> Self {
        Self::before(shared().port())
    }

    /// Before the pooler.
    fn before_pooler() -> Self {
        let url: tokio_postgres::Config = Pooled::url("postgres").parse().unwrap();
        Self::before(url.get_ports()[0])
    }

    fn before(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, kept) = (Arc::new(AtomicU8::new(PASS)), Arc::default());
        let proxy = Self { port, cut: Arc::clone(&cut), kept: Arc::clone(&kept) };
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, cut, kept) = (client.unwrap(), Arc::clone(&cut), Arc::clone(&kept));
                let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || answers(from_server, to_client));
                thread::spawn(move || requests(client, server, &cut, &kept));
            }
        });
        proxy
    }

    pub(super) fn url(&self, database: &str) -> String {
        format!("postgres://keylane@127.0.0.1:{}/{database}", self.port)
    }

    pub(super) fn until_kept(&self) {
        until(|| self.kept.lock().unwrap().is_some());
    }

    /// Cuts the connection of the client whose COMMIT was kept.
    pub(super) fn lose_client(&self) {
        let kept = self.kept.lock().unwrap();
        let (.., client) = kept.as_ref().expect("a COMMIT was kept");
        client.shutdown(Shutdown::Both).unwrap();
    }

    /// Lets the server have the COMMIT that was kept.
    pub(super) fn send_kept(&self) {
        let (mut server, commit, _) = self.kept.lock().unwrap().take().expect("a COMMIT was kept");
        server.write_all(&commit).unwrap();
    }
}

fn answers(mut server: TcpStream, mut client: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = server.read(&mut buffer) {
        // Whoever listens may be gone.
        let _ = client.write_all(&buffer[..read]);
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn requests(mut client: TcpStream, mut server: TcpStream, cut: &AtomicU8, kept: &Mutex<Kept>) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let request = &buffer[..read];
        let commits = request.windows(16).any(|words| words == b"SELECT 1; COMMIT");
        match if commits { cut.swap(PASS, Ordering::SeqCst) } else { PASS } {
            PASS => server.write_all(request).unwrap(),
            LOSE_ANSWER => {
                client.shutdown(Shutdown::Both).unwrap();
                server.write_all(request).unwrap();
            }
            keep => {
                let both = (server.try_clone().unwrap(), request.to_vec(), client.try_clone().unwrap());
                *kept.lock().unwrap() = Some(both);
                if keep == KEEP_COMMIT {
                    client.shutdown(Shutdown::Both).unwrap();
                }
                return;
            }
        }
    }
    // It does all that it was sent before it finds that nothing follows.
    let _ = server.shutdown(Shutdown::Write);
}

fn behind(proxy: &Proxy, twin: Twin) -> BaseRig {
    BaseRig::at(Database::on(shared(), |name| proxy.url(name)).with(|mut store| {
        store.rules.twin = twin;
        store
    }))
}

#[test]
fn a_commit_whose_answer_is_lost_is_tried_again_and_applies_once() {
    let proxy = Proxy::start();
    let rig = behind(&proxy, Twin::default());
    let mut a = rig.claim("a", 1, P0);
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a");
    let mut batch = [a.part(vec![rig.job("k", 1), rig.job("l", 2)])];
    proxy.cut.store(LOSE_ANSWER, Ordering::SeqCst);
    let error = a.session.write(&mut batch).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    until(|| rig.place.told().len() == 3);
    let answers = a.session.write(&mut batch).unwrap();
    assert_eq!(letters(answers[0].jobs.as_ref().unwrap()), "dd");
    assert_eq!(rig.place.told(), ["k:0", "k:1", "l:2"]);
}

/// A pooler that loses its client may end the transaction or not: either way the job is done once.
#[test]
fn a_commit_behind_a_pooler_whose_answer_is_lost_is_tried_again_and_applies_once() {
    let proxy = Proxy::before_pooler();
    let rig = behind(&proxy, Twin::default());
    let mut a = rig.claim("a", 1, P0);
    let mut offset = 0;
    for _ in 0..10 {
        let mut batch = [a.part(vec![rig.job("k", offset), rig.job("l", offset + 1)])];
        proxy.cut.store(LOSE_ANSWER, Ordering::SeqCst);
        assert!(a.session.write(&mut batch).unwrap_err().is_transient());
        let answers = a.session.write(&mut batch).unwrap();
        let answers = letters(answers[0].jobs.as_ref().unwrap());
        assert!(["aa", "dd"].contains(&&*answers), "{answers}");
        offset += 2;
    }
    let told = rig.place.told();
    let each: std::collections::BTreeSet<_> = told.iter().collect();
    assert_eq!((told.len(), each.len()), (20, 20), "{told:?}");
}

#[test]
fn a_claim_whose_answer_is_lost_is_said_again_and_holds() {
    let proxy = Proxy::start();
    let rig = behind(&proxy, Twin::default());
    let mut session = rig.session();
    let mine = crate::store::conformance::candidate("a", 1, P0);
    proxy.cut.store(LOSE_ANSWER, Ordering::SeqCst);
    assert!(session.claim(&mine).is_err());
    session.claim(&mine).unwrap();
}

/// The first write's COMMIT is on its way when its connection is lost; the second has another job besides, so that no row
/// of theirs is the same. How the second one ended, and how often the first job was told.
fn a_commit_that_comes_late(twin: Twin, proxy: &Proxy) -> (String, usize) {
    let waits = !twin.does_not_settle;
    let rig = behind(proxy, twin);
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![rig.job("k", 0)]).unwrap();
    proxy.cut.store(KEEP_COMMIT, Ordering::SeqCst);
    assert!(a.session.write(&mut [a.part(vec![rig.job("k", 7)])]).unwrap_err().is_transient());
    let mut again: [crate::store::PartitionWrite<PostgresStore>; 1] = [a.part(vec![rig.job("j", 6), rig.job("k", 7)])];
    let answers = thread::scope(|scope| {
        let second = scope.spawn(|| a.session.write(&mut again).unwrap());
        if waits {
            rig.place.until_one_waits();
        } else {
            until(|| second.is_finished());
        }
        proxy.send_kept();
        second.join().unwrap()
    });
    let times = || rig.place.told().iter().filter(|line| *line == "k:7").count();
    until(|| times() >= if waits { 1 } else { 2 });
    (letters(answers[0].jobs.as_ref().unwrap()), times())
}

#[test]
fn a_write_on_a_new_connection_waits_for_the_commit_of_the_lost_one() {
    assert_eq!(a_commit_that_comes_late(Twin::default(), &Proxy::start()), ("ad".into(), 1));
}

#[test]
fn a_write_behind_a_pooler_waits_for_the_commit_of_the_lost_connection() {
    assert_eq!(a_commit_that_comes_late(Twin::default(), &Proxy::before_pooler()), ("ad".into(), 1));
}

#[test]
fn without_that_wait_a_job_is_applied_twice() {
    for proxy in [Proxy::start(), Proxy::before_pooler()] {
        let twin = Twin { does_not_settle: true, ..Twin::default() };
        assert_eq!(a_commit_that_comes_late(twin, &proxy), ("aa".into(), 2));
    }
}
