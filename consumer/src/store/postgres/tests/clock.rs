//! The database's clock: far off, and jumping while jobs flow. It is shown, and nothing depends on it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use keylane_testing::postgres::{Options, Pooler, Server, WrongClock};

use super::{
    BaseRig, Database, PostgresStore,
    admit::{handle, pass},
    away::Flow,
    until,
};
use crate::{
    fence::Fenced,
    store::{
        ClaimError, ClaimRefused, StoreSession,
        conformance::{P0, Place, candidate, letters},
    },
};

const DAY_MS: i64 = 24 * 3_600 * 1_000;

fn with_a_clock(clock: &WrongClock) -> &'static Server {
    Box::leak(Box::new(Server::start(&Options::default().clock(clock)).unwrap()))
}

/// Within a minute: a server that is far off is not known better by whom it fools.
fn days_ahead(store: &PostgresStore) -> i32 {
    let (skew, _) = store.clock_skew().unwrap();
    let days = (skew as f64 / DAY_MS as f64).round() as i32;
    assert!((skew - i64::from(days) * DAY_MS).abs() < 60_000, "{skew} ms");
    days
}

/// Everything that the fence promises, with two owners, a handler's own transaction, and what is lost and regained.
fn fences(rig: &BaseRig) {
    let mut old = rig.claim("a", 1, P0);
    assert_eq!(letters(&old.write(vec![rig.job("k", 0), rig.job("k", 1)]).unwrap()), "aa");
    handle(&rig.place.store(), &pass(&old, 2), "k:2", || {}).unwrap();
    let refused = rig.try_claim(&candidate("b", 1, P0)).err();
    assert!(matches!(refused, Some(ClaimError::Refused(ClaimRefused::EqualGeneration))), "{refused:?}");
    let mut new = rig.claim("b", 2, P0);
    assert_eq!(new.claimed.done.floor, 3);
    assert_eq!(old.write(vec![rig.job("k", 3)]).unwrap_err(), Fenced::NewerClaim);
    assert!(handle(&rig.place.store(), &pass(&old, 3), "k:3", || {}).is_err());
    assert_eq!(letters(&new.write(vec![rig.job("k", 2), rig.job("k", 3)]).unwrap()), "da");
    assert_eq!(new.session.unknown(&[old.fence.clone(), new.fence.clone()]).unwrap().len(), 1);
    new.session.hand_over(&new.fence).unwrap().unwrap();
    let mut again = rig.claim("a", 3, P0);
    assert!(again.claimed.clean);
    assert_eq!(old.write(vec![rig.job("k", 4)]).unwrap_err(), Fenced::NewerClaim, "regained is another claim");
    assert_eq!(letters(&again.write(vec![rig.job("k", 4)]).unwrap()), "a");
    assert_eq!(rig.place.told(), ["k:0", "k:1", "k:2", "k:3", "k:4"]);
}

#[test]
fn a_database_whose_clock_is_far_off_fences_all_the_same_and_the_skew_is_shown() {
    for days in [400_i32, -400] {
        let server = with_a_clock(&WrongClock::days(days).unwrap());
        let rig = BaseRig::at(Database::on(server, |name| server.url(name)));
        fences(&rig);
        assert_eq!(days_ahead(&rig.place.store()), days);
        let pooler = Pooler::start(server).unwrap();
        let rig = BaseRig::at(Database::on(server, |name| pooler.url(name)));
        fences(&rig);
        assert_eq!(days_ahead(&rig.place.store()), days, "by way of a pooler");
    }
}

/// Its limits of time are the server's own; one that runs out because the clock jumped is tried again.
#[test]
fn a_clock_of_the_database_that_jumps_while_jobs_flow_costs_no_job_and_repeats_none() {
    let clock = WrongClock::days(0).unwrap();
    let server = with_a_clock(&clock);
    let mut flow = Flow::begin(Database::on(server, |name| server.url(name)));
    flow.on_until_it_flows();
    for days in [30, -30, 1, -400, 0] {
        clock.jump_to(days).unwrap();
        let store = flow.scene.database.store();
        until(|| {
            flow.on();
            days_ahead(&store) == days
        });
        let told = flow.scene.told().len();
        until(|| {
            flow.on();
            flow.scene.told().len() > told + 20
        });
    }
    flow.end();
}

/// Words of SQL that read the clock.
const READS: [&str; 7] = [
    "now()",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
    "current_timestamp",
    "localtimestamp",
];

/// What is left of these lines that reads the clock, but for what a row notes for people: a default, or a column that is set.
fn decides_by_the_clock(text: &str) -> Vec<String> {
    let notes =
        ["default now()", " at = now()", "since = now()", "last = now()", "claimed_at = now()", "pinned_at = now()"];
    let left = |line: &str| notes.iter().fold(line.to_lowercase(), |line, note| line.replace(note, ""));
    let reads = |line: &&str| READS.iter().any(|word| left(line).contains(word));
    text.lines().filter(|line| !line.trim_start().starts_with("//")).filter(reads).map(str::to_owned).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let folders = folders.iter().filter(|path| !path.ends_with("tests"));
    files.into_iter().chain(folders.flat_map(|folder| sources(folder))).collect()
}

#[test]
fn no_statement_of_the_store_decides_by_the_database_s_clock() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/postgres");
    let mut reads = Vec::new();
    for file in sources(&folder) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        for line in decides_by_the_clock(&fs::read_to_string(&file).unwrap()) {
            reads.push(format!("{name}: {}", line.trim()));
        }
    }
    assert_eq!(reads, Vec::<String>::new());
    // The functions as the database has them, with what they call.
    let rig = BaseRig::new();
    drop(rig.session());
    let functions = "FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace WHERE nspname = 'keylane'";
    assert_eq!(rig.place.sql(&format!("SELECT count(*) {functions}")), "7");
    assert_eq!(decides_by_the_clock(&rig.place.sql(&format!("SELECT prosrc {functions}"))), Vec::<String>::new());
}

#[test]
fn a_statement_that_decides_by_the_clock_is_seen() {
    for bad in [
        "WHERE f.scope = $1 AND f.claimed_at > now() - interval '15 s'",
        "AND lease_until < clock_timestamp()",
        "SET claim = extract(epoch FROM now())",
        "IF CURRENT_TIMESTAMP > x THEN",
    ] {
        assert_eq!(decides_by_the_clock(bad).len(), 1, "{bad}");
    }
    assert!(decides_by_the_clock("SET claim = claim + 1, claimed_at = now(), at = now()").is_empty());
}
