//! The sentences, written out: each template with no, one and twelve partitions, with and without lag.

use super::*;

/// 14:02:19 UTC.
const AT: i64 = 1_764_597_739_000;

fn of(happening: &Happening) -> String {
    let text = sentence(AT, happening);
    text.strip_prefix("14:02:19 UTC: ").expect("each begins with its time").to_owned()
}

fn w(number: u32) -> String {
    format!("keylane-worker-{number}")
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// No, one and twelve partitions.
fn sets() -> [Vec<u32>; 3] {
    [vec![], vec![3], (0..12).collect()]
}

/// The golden sentences, one a line, over no, one and twelve partitions.
fn check(make: impl Fn(Vec<u32>) -> Happening, golden: [&str; 3]) {
    assert_eq!(sets().map(|partitions| of(&make(partitions))), golden);
}

#[test]
fn workers_come_and_go() {
    assert_eq!(
        of(&Happening::WorkerStarted { worker: w(0), group: "billing".into() }),
        "keylane-worker-0 started and joined billing."
    );
    check(
        |partitions| Happening::WorkerDraining { worker: w(1), jobs: Some(partitions.len() as u64), partitions },
        [
            "keylane-worker-1 was asked to stop. It holds no partition.",
            "keylane-worker-1 was asked to stop. It takes no new jobs on partition 3 and is finishing 1 job.",
            "keylane-worker-1 was asked to stop. It takes no new jobs on 12 partitions (0–11) and is finishing 12 jobs.",
        ],
    );
    let stopped = |ended| of(&Happening::WorkerStopped { worker: w(1), ended });
    assert_eq!(stopped(Ended::Clean), "keylane-worker-1 stopped. Nothing was left unfinished.");
    assert_eq!(stopped(Ended::Unsaid), "keylane-worker-1 stopped.");
    assert_eq!(
        stopped(Ended::TimedOut { limit: s(60), jobs: 12 }),
        "keylane-worker-1 ran out of time to drain (60 s). 12 jobs were cut short and will run again on the next owner."
    );
}

#[test]
fn silence_and_return() {
    check(
        |partitions| Happening::WorkerLost { worker: w(3), silent: s(20), remaining: Some(s(25)), partitions },
        [
            "keylane-worker-3 has not reported for 20 s. It held no partition that we know of.",
            "keylane-worker-3 has not reported for 20 s. Its session may run for another 25 s, so partition 3 is shown as unknown.",
            "keylane-worker-3 has not reported for 20 s. Its session may run for another 25 s, so 12 partitions (0–11) are shown \
             as unknown.",
        ],
    );
    let lost = |remaining| of(&Happening::WorkerLost { worker: w(3), silent: s(20), remaining, partitions: vec![3] });
    assert_eq!(
        lost(Some(s(0))),
        "keylane-worker-3 has not reported for 20 s. Its session has run out, so partition 3 is shown as expired."
    );
    assert_eq!(
        lost(None),
        "keylane-worker-3 has not reported for 20 s. We do not know how long its session runs, so partition 3 is shown as unknown."
    );
    check(
        |partitions| Happening::WorkerReturned { worker: w(3), silent: s(65), partitions },
        [
            "keylane-worker-3 is back after 65 s of silence. It holds no partition.",
            "keylane-worker-3 is back after 65 s of silence. It still holds partition 3.",
            "keylane-worker-3 is back after 65 s of silence. It still holds 12 partitions (0–11).",
        ],
    );
}

#[test]
fn partitions_change_hands() {
    let handed = || Before::Handed { from: w(2), gap: Some(Duration::from_millis(1_800)) };
    check(
        |partitions| Happening::Acquired { worker: w(0), partitions, before: handed(), lag: Some(311) },
        [
            "keylane-worker-0 took over no partition from keylane-worker-2, after 1.8 s without an owner. 311 jobs were waiting.",
            "keylane-worker-0 took over partition 3 from keylane-worker-2, after 1.8 s without an owner. 311 jobs were waiting.",
            "keylane-worker-0 took over 12 partitions (0–11) from keylane-worker-2, after 1.8 s without an owner. 311 jobs were \
             waiting.",
        ],
    );
    check(
        |partitions| Happening::Acquired { worker: w(0), partitions, before: handed(), lag: None },
        [
            "keylane-worker-0 took over no partition from keylane-worker-2, after 1.8 s without an owner. How many jobs wait is \
             not known.",
            "keylane-worker-0 took over partition 3 from keylane-worker-2, after 1.8 s without an owner. How many jobs wait is \
             not known.",
            "keylane-worker-0 took over 12 partitions (0–11) from keylane-worker-2, after 1.8 s without an owner. How many jobs \
             wait is not known.",
        ],
    );
    check(
        |partitions| Happening::Acquired { worker: w(0), partitions, before: Before::Unseen, lag: Some(1) },
        [
            "keylane-worker-0 took no partition. It is the first owner we have seen.",
            "keylane-worker-0 took partition 3. It is the first owner we have seen.",
            "keylane-worker-0 took 12 partitions (0–11). It is the first owner we have seen.",
        ],
    );
    let again = Before::Handed { from: w(0), gap: Some(s(6)) };
    assert_eq!(
        of(&Happening::Acquired { worker: w(0), partitions: vec![3], before: again, lag: Some(0) }),
        "keylane-worker-0 took partition 3 again, after 6.0 s without an owner. No jobs were waiting."
    );
    check(
        |partitions| Happening::Draining { worker: w(1), jobs: Some(0), partitions },
        [
            "keylane-worker-1 is handing back no partition and has no job left to finish.",
            "keylane-worker-1 is handing back partition 3 and has no job left to finish.",
            "keylane-worker-1 is handing back 12 partitions (0–11) and has no job left to finish.",
        ],
    );
    check(
        |partitions| Happening::Released {
            worker: w(1),
            jobs: Some(partitions.len() as u64),
            took: Some(s(4)),
            partitions,
        },
        [
            "keylane-worker-1 handed back no partition with no open jobs in 4.0 s.",
            "keylane-worker-1 handed back partition 3 after finishing its 1 open job in 4.0 s.",
            "keylane-worker-1 handed back 12 partitions (0–11) after finishing its 12 open jobs in 4.0 s.",
        ],
    );
}

#[test]
fn trouble_says_what_follows() {
    check(
        |partitions| Happening::Expired { worker: w(2), partitions },
        [
            "keylane-worker-2 let its session on no partition run out. Its unfinished jobs will run again on the next owner; late \
             writes from it are refused.",
            "keylane-worker-2 let its session on partition 3 run out. Its unfinished jobs will run again on the next owner; late \
             writes from it are refused.",
            "keylane-worker-2 let its session on 12 partitions (0–11) run out. Its unfinished jobs will run again on the next \
             owner; late writes from it are refused.",
        ],
    );
    check(
        |partitions| Happening::Absent { partitions, lag: Some(1_234), last: Some((w(2), AT - 6_000)) },
        [
            "Nobody holds no partition. 1,234 jobs are waiting. Last owner: keylane-worker-2, until 14:02:13 UTC.",
            "Nobody holds partition 3. 1,234 jobs are waiting. Last owner: keylane-worker-2, until 14:02:13 UTC.",
            "Nobody holds 12 partitions (0–11). 1,234 jobs are waiting. Last owner: keylane-worker-2, until 14:02:13 UTC.",
        ],
    );
    assert_eq!(
        of(&Happening::Absent { partitions: vec![3], lag: None, last: None }),
        "Nobody holds partition 3. How many jobs wait is not known. We have seen no owner before."
    );
    check(
        |partitions| Happening::Contested { a: w(0), b: w(1), partitions },
        [
            "keylane-worker-0 and keylane-worker-1 both say they hold no partition. One of them has been cut off; the database \
             will refuse its writes.",
            "keylane-worker-0 and keylane-worker-1 both say they hold partition 3. One of them has been cut off; the database will \
             refuse its writes.",
            "keylane-worker-0 and keylane-worker-1 both say they hold 12 partitions (0–11). One of them has been cut off; the \
             database will refuse its writes.",
        ],
    );
    check(
        |partitions| Happening::WriteRefused { worker: w(2), jobs: 2, partitions },
        [
            "keylane-worker-2 tried to finish 2 jobs on no partition after losing it. The writes were refused, so nothing was done \
             twice.",
            "keylane-worker-2 tried to finish 2 jobs on partition 3 after losing it. The writes were refused, so nothing was done \
             twice.",
            "keylane-worker-2 tried to finish 2 jobs on 12 partitions (0–11) after losing them. The writes were refused, so \
             nothing was done twice.",
        ],
    );
    check(
        |partitions| Happening::Stuck { worker: w(0), partitions, lag: Some(12), idle: s(360) },
        [
            "No partition has 12 jobs waiting, but keylane-worker-0 has finished none for 6 min.",
            "Partition 3 has 12 jobs waiting, but keylane-worker-0 has finished none for 6 min.",
            "12 partitions (0–11) have 12 jobs waiting, but keylane-worker-0 has finished none for 6 min.",
        ],
    );
    assert_eq!(
        of(&Happening::Stuck { worker: w(0), partitions: vec![3], lag: None, idle: s(360) }),
        "Partition 3 has jobs waiting, but keylane-worker-0 has finished none for 6 min."
    );
    check(
        |partitions| Happening::Recovered { partitions, after: s(360) },
        [
            "No partition is moving again after 6 min.",
            "Partition 3 is moving again after 6 min.",
            "12 partitions (0–11) are moving again after 6 min.",
        ],
    );
}

#[test]
fn handlers_rebalances_and_gaps() {
    let failing = Happening::HandlerFailing { handler: "invoices".into(), times: 12, code: 503, keys: 1 };
    assert_eq!(
        of(&failing),
        "Handler invoices failed 12 times in a row (last answer 503). 1 key waits; other keys go on."
    );
    assert_eq!(
        of(&Happening::HandlerPaused { handler: "invoices".into(), code: 401 }),
        "Handler invoices answered 401, so we stopped calling it. No job was given up. Check its secret, then: keylane handler \
         resume invoices."
    );
    assert_eq!(
        of(&Happening::HandlerRecovered { handler: "invoices".into(), after: s(360) }),
        "Handler invoices answers again after 6 min."
    );
    check(
        |partitions| Happening::Rebalanced { partitions, took: s(2), left: Some(w(2)), took_over: vec![w(0), w(1)] },
        [
            "Rebalance: no partitions moved in 2.0 s. keylane-worker-2 left; keylane-worker-0 and keylane-worker-1 took over.",
            "Rebalance: 1 partition moved in 2.0 s. keylane-worker-2 left; keylane-worker-0 and keylane-worker-1 took over.",
            "Rebalance: 12 partitions moved in 2.0 s. keylane-worker-2 left; keylane-worker-0 and keylane-worker-1 took over.",
        ],
    );
    assert_eq!(
        of(&Happening::ObserverGap { group: "billing".into(), gap: s(40) }),
        "We could not see billing for 40 s. What happened in that time is not in this list."
    );
}

/// Every template over no, one and twelve partitions, with and without lag.
pub(crate) fn every_sentence() -> Vec<String> {
    let mut all = Vec::new();
    for partitions in sets() {
        for lag in [None, Some(0), Some(1), Some(123_456)] {
            let p = || partitions.clone();
            let handed = Before::Handed { from: w(2), gap: Some(s(99)) };
            all.extend([
                Happening::WorkerStarted { worker: w(0), group: "billing".into() },
                Happening::WorkerDraining { worker: w(0), partitions: p(), jobs: lag },
                Happening::WorkerStopped { worker: w(0), ended: Ended::Clean },
                Happening::WorkerStopped { worker: w(0), ended: Ended::Unsaid },
                Happening::WorkerStopped {
                    worker: w(0),
                    ended: Ended::TimedOut { limit: s(60), jobs: lag.unwrap_or(7) },
                },
                Happening::WorkerLost { worker: w(0), silent: s(20), remaining: lag.map(s), partitions: p() },
                Happening::WorkerReturned { worker: w(0), silent: s(20), partitions: p() },
                Happening::Acquired { worker: w(0), partitions: p(), before: handed, lag },
                Happening::Acquired { worker: w(0), partitions: p(), before: Before::Unseen, lag },
                Happening::Draining { worker: w(0), partitions: p(), jobs: lag },
                Happening::Released { worker: w(0), partitions: p(), jobs: lag, took: lag.map(s) },
                Happening::Expired { worker: w(0), partitions: p() },
                Happening::Absent { partitions: p(), lag, last: Some((w(2), AT)) },
                Happening::Absent { partitions: p(), lag, last: None },
                Happening::Contested { a: w(0), b: w(1), partitions: p() },
                Happening::WriteRefused { worker: w(0), partitions: p(), jobs: lag.unwrap_or(7) },
                Happening::Stuck { worker: w(0), partitions: p(), lag, idle: s(360) },
                Happening::Recovered { partitions: p(), after: s(360) },
                Happening::HandlerFailing { handler: "invoices".into(), times: 9, code: 503, keys: lag.unwrap_or(7) },
                Happening::HandlerPaused { handler: "invoices".into(), code: 401 },
                Happening::HandlerRecovered { handler: "invoices".into(), after: s(9) },
                Happening::Rebalanced {
                    partitions: p(),
                    took: s(2),
                    left: Some(w(2)),
                    took_over: (0..9).map(w).collect(),
                },
                Happening::ObserverGap { group: "billing".into(), gap: s(40) },
            ]);
        }
    }
    all.iter().map(|happening| sentence(AT, happening)).collect()
}

#[test]
fn sentences_are_short_plain_and_name_no_secret() {
    for text in every_sentence() {
        assert!(text.chars().count() < 200, "{} characters: {text}", text.chars().count());
        let low = text.to_lowercase();
        for word in ["generation", "epoch", "token", "fence", "successfully", "offset", "member", "please"] {
            assert!(!low.contains(word), "'{word}' in: {text}");
        }
        assert!(!low.contains("lost"), "jobs are never lost: {text}");
        assert!(text.ends_with('.') && !text.contains("  ") && !text.contains(".."), "{text}");
        let sentences = text.matches(". ").count();
        assert!(sentences <= 2, "at most three short sentences: {text}");
    }
}
