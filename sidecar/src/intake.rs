//! A snapshot from outside, held to the contract before anything is made of it.
//!
//! 1. No field that the contract does not name, no name or time outside its pattern, no list beyond its bound.
//! 2. What is refused is refused whole, and nothing of its text is passed on.

use crate::{
    snapshot::{
        MOST_KEYS, MOST_KEYS_OF_ALL, PartitionState, PartitionView, Scope, Snapshot, WorkerView, is_key, is_name,
    },
    words::event::unix_ms,
};

/// Largest answer that is read: 4,096 partitions take about 1.6 MB.
pub const LARGEST_ANSWER: usize = 4 << 20;

const MOST_WORKERS: usize = 1_024;
const MOST_PARTITIONS: usize = 4_096;

/// Why an answer is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no snapshot, or one of another version.
    #[error("the answer is not a snapshot of this version")]
    NotASnapshot,
    /// A value is outside of what the contract allows.
    #[error("the answer breaks the snapshot's contract")]
    BreaksTheContract,
}

/// Reads one worker's snapshot, or a group's for `narrate`.
///
/// # Errors
///
/// [`Refused`] if it does not keep the contract.
pub fn read(answer: &[u8]) -> Result<Snapshot, Refused> {
    let snapshot: Snapshot = serde_json::from_slice(answer).map_err(|_| Refused::NotASnapshot)?;
    if keeps_the_contract(&snapshot) { Ok(snapshot) } else { Err(Refused::BreaksTheContract) }
}

/// Reads a snapshot in which a worker speaks for itself.
///
/// # Errors
///
/// [`Refused`] if it does not keep the contract, or speaks for others.
pub fn read_of_worker(answer: &[u8]) -> Result<Snapshot, Refused> {
    let snapshot = serde_json::from_slice(answer).map_err(|_| Refused::NotASnapshot)?;
    if is_of_worker(&snapshot) { Ok(snapshot) } else { Err(Refused::BreaksTheContract) }
}

/// Whether it keeps the contract, and a worker speaks for itself and nobody else.
pub fn is_of_worker(snapshot: &Snapshot) -> bool {
    // None before its first word.
    let own = snapshot.workers.first().map(|own| &own.worker);
    let speaks_for_itself = |p: &PartitionView| p.worker.as_ref().is_none_or(|name| Some(name) == own);
    snapshot.scope == Scope::Worker
        && snapshot.workers.len() <= 1
        && snapshot.partitions.iter().all(speaks_for_itself)
        && keeps_the_contract(snapshot)
}

fn keeps_the_contract(snapshot: &Snapshot) -> bool {
    let queue = &snapshot.queue;
    let names = [&snapshot.observer.name, &snapshot.observer.version, &queue.cluster, &queue.topic, &queue.group];
    let count = queue.partition_count.is_none_or(|count| (1..=MOST_PARTITIONS).contains(&(count as usize)));
    let notices = snapshot.notices.iter().all(|n| is_code(&n.code) && (1..=400).contains(&n.text.chars().count()));
    names.into_iter().all(|n| is_name(n))
        && count
        && is_time(&snapshot.observed_at)
        && snapshot.stale_after_ms >= 1_000
        && snapshot.workers.len() <= MOST_WORKERS
        && snapshot.partitions.len() <= MOST_PARTITIONS
        && snapshot.notices.len() <= 50
        && notices
        && snapshot.partitions.iter().map(|p| p.keys.len()).sum::<usize>() <= MOST_KEYS_OF_ALL
        && snapshot.workers.iter().all(worker)
        && snapshot.partitions.iter().all(partition)
        && snapshot.partitions.iter().map(|p| p.partition).is_sorted_by(|a, b| a < b)
}

fn worker(worker: &WorkerView) -> bool {
    is_name(&worker.worker) && is_time(&worker.last_seen_at) && worker.since.as_deref().is_none_or(is_time)
}

fn partition(p: &PartitionView) -> bool {
    let names = p.worker.iter().chain(&p.claimants).chain(&p.last_known_worker);
    let times = p.since.iter().chain(&p.last_completed_at).chain(&p.lag.as_of);
    let state = match p.state {
        PartitionState::Held | PartitionState::Draining => p.worker.is_some(),
        PartitionState::Expired => p.worker.is_some() && p.session_remaining_ms == Some(0),
        PartitionState::Absent | PartitionState::Unknown | PartitionState::Contested => {
            p.worker.is_none() && p.session_remaining_ms.is_none()
        }
    };
    let claimants = match p.state {
        PartitionState::Contested => (2..=8).contains(&p.claimants.len()),
        _ => p.claimants.is_empty(),
    };
    // Unknown is null with a reason; known has a time.
    let lag = match p.lag.jobs {
        Some(_) => p.lag.why_unknown.is_none() && p.lag.as_of.is_some(),
        None => p.lag.why_unknown.is_some(),
    };
    let known = usize::try_from(p.partition).is_ok_and(|number| number < MOST_PARTITIONS);
    let keys = p.keys.len() <= MOST_KEYS && p.keys.iter().all(|key| is_key(&key.shown));
    state
        && claimants
        && lag
        && known
        && keys
        && names.into_iter().all(|n| is_name(n))
        && times.into_iter().all(|t| is_time(t))
}

fn is_code(code: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (2..=41).contains(&code.len()) && code.starts_with(|c: char| c.is_ascii_lowercase()) && code.bytes().all(allowed)
}

/// `2026-12-01T14:02:31.412Z`, and a day that exists.
pub(crate) fn is_time(time: &str) -> bool {
    let shape = b"0000-00-00T00:00:00.000Z";
    let fits = |(&c, &s): (&u8, &u8)| if s == b'0' { c.is_ascii_digit() } else { c == s };
    time.len() == shape.len() && time.as_bytes().iter().zip(shape).all(fits) && unix_ms(time).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn example() -> Value {
        serde_json::from_str(include_str!("../../docs/schemas/snapshot.example.json")).unwrap()
    }

    fn answer(change: impl FnOnce(&mut Value)) -> Result<Snapshot, Refused> {
        let mut value = example();
        change(&mut value);
        read(value.to_string().as_bytes())
    }

    #[test]
    fn the_example_of_the_contract_is_read_and_written_as_it_is() {
        let snapshot = answer(|_| ()).unwrap();
        assert_eq!(serde_json::to_value(&snapshot).unwrap(), example());
    }

    #[test]
    fn what_the_contract_does_not_allow_is_refused_whole() {
        type Change = fn(&mut Value);
        let changes: [(&str, Change); 15] = [
            ("an unknown field", |v| v["generation"] = json!(7)),
            ("an unknown field inside", |v| v["partitions"][0]["token"] = json!(7)),
            ("another version", |v| v["schema"] = json!("keylane.ownership-snapshot/v2")),
            ("markup in a name", |v| v["workers"][0]["worker"] = json!("<script>alert(1)</script>")),
            ("a name that is too long", |v| v["queue"]["group"] = json!("g".repeat(250))),
            ("a day that is none", |v| v["observed_at"] = json!("2026-13-01T14:02:31.412Z")),
            ("a time with a zone", |v| v["observed_at"] = json!("2026-12-01T14:02:31.412+01:00")),
            ("held by nobody", |v| v["partitions"][0]["worker"] = json!(null)),
            ("unknown lag without a reason", |v| {
                v["partitions"][0]["lag"] = json!({"jobs": null, "as_of": null, "why_unknown": null});
            }),
            ("two claimants of a held partition", |v| v["partitions"][0]["claimants"] = json!(["a", "b"])),
            ("a partition beyond the bound", |v| v["partitions"][5]["partition"] = json!(4_096)),
            ("a key that acts on a terminal", |v| {
                v["partitions"][0]["keys"] = json!([{"shown": "\u{1b}[2J", "parked": true, "waiting": null}]);
            }),
            ("too many keys", |v| {
                v["partitions"][0]["keys"] = vec![json!({"shown": "k", "parked": true, "waiting": 1}); 21].into();
            }),
            ("a key that turns a line around", |v| {
                v["partitions"][0]["keys"] = json!([{"shown": "a\u{202e}b", "parked": true, "waiting": null}]);
            }),
            ("a partition twice", |v| v["partitions"][1]["partition"] = json!(0)),
        ];
        for (what, change) in changes {
            assert!(answer(change).is_err(), "{what} was read");
        }
    }

    #[test]
    fn a_group_cannot_speak_for_a_worker() {
        assert_eq!(read_of_worker(example().to_string().as_bytes()), Err(Refused::BreaksTheContract));
    }
}
