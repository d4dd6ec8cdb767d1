//! The verdict: log and ledger read anew, after every worker has ended. Nothing that a worker counted is asked.
//!
//! 1. Every event of the log has exactly one row in the journal, with the event's own words.
//! 2. For each aircraft the journal's rows are in the order of the log.
//! 3. Each aircraft's totals are what its events add up to.
//! 4. No row was written by a worker that the partition's fence row did not name (a stale write that landed).
//! 5. Stale writes were tried and refused: else nothing was shown.

use std::collections::{BTreeMap, BTreeSet};

use keylane_producer::{Log, Offset, log::ReadLimit};
use serde::Serialize;

use super::{
    books::{Books, Entry, Totals},
    flight::Flight,
    stage::Scene,
};
use crate::{
    broker,
    exit::{Code, Failure},
    store::Store,
};

/// What was found. Counts of events, except where it is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    verdict: &'static str,
    /// Whether the store's check stood.
    pub(super) fence: bool,
    pub(super) jobs: u64,
    /// Aircraft.
    pub(super) aircraft: u64,
    pub(super) applied_once: u64,
    pub(super) lost: u64,
    pub(super) applied_twice: u64,
    pub(super) out_of_order: u64,
    /// Rows of the journal that are no event of the log.
    pub(super) unknown: u64,
    /// Aircraft whose totals are not what their events add up to.
    pub(super) wrong_totals: u64,
    pub(super) stale_landed: u64,
    pub(super) stale_refused: u64,
    /// Transactions of [`Verdict::stale_refused`].
    pub(super) stale_writes_refused: u64,
}

impl Verdict {
    pub(super) fn reach(scene: &Scene, fence: bool) -> Result<Self, Failure> {
        let log = read_log(scene)?;
        let ledger = Ledger::read(&mut Books::open(&scene.global)?)?;
        let refused = Refused::read(scene)?;
        Ok(Self { fence, ..Self::judge(&log, &ledger, refused) })
    }

    pub(super) fn holds(&self) -> bool {
        let faults = [
            self.lost,
            self.applied_twice,
            self.out_of_order,
            self.unknown,
            self.wrong_totals,
            self.stale_landed,
            self.jobs.abs_diff(self.applied_once),
        ];
        faults == [0; 7] && self.stale_refused > 0
    }

    fn judge(log: &Events, ledger: &Ledger, refused: Refused) -> Self {
        let mut rows = BTreeMap::<Place, u64>::new();
        let mut last = BTreeMap::<&str, Offset>::new();
        let mut found = Self {
            jobs: log.len() as u64,
            stale_refused: refused.jobs,
            stale_writes_refused: refused.writes,
            ..Self::default()
        };
        for entry in &ledger.journal {
            found.stale_landed += u64::from(entry.owner_then.as_deref() != Some(&entry.worker));
            found.unknown += u64::from(log.get(&entry.place) != Some(&entry.flight));
            let times = rows.entry(entry.place).or_default();
            *times += 1;
            if *times == 1 {
                let (_, offset) = entry.place;
                let before = last.insert(&entry.flight.tail, offset);
                found.out_of_order += u64::from(before.is_some_and(|before| before > offset));
            }
        }
        for place in log.keys() {
            match rows.get(place).copied().unwrap_or(0) {
                0 => found.lost += 1,
                1 => found.applied_once += 1,
                _ => found.applied_twice += 1,
            }
        }
        let right = totals(log);
        let tails: BTreeSet<&String> = right.keys().chain(ledger.totals.keys()).collect();
        found.aircraft = right.len() as u64;
        found.wrong_totals =
            tails.into_iter().filter(|&tail| right.get(tail) != ledger.totals.get(tail)).count() as u64;
        found.verdict = if found.holds() { "held" } else { "broken" };
        found
    }
}

/// Partition and offset.
type Place = (u32, Offset);

/// What the log has. In a partition the order of offsets is the order of each aircraft.
type Events = BTreeMap<Place, Flight>;

fn totals(log: &Events) -> BTreeMap<String, Totals> {
    let mut totals = BTreeMap::<String, Totals>::new();
    for flight in log.values() {
        let aircraft = totals.entry(flight.tail.clone()).or_default();
        aircraft.legs += 1;
        aircraft.miles += flight.miles;
        aircraft.last_airport.clone_from(&flight.dest);
    }
    totals
}

fn read_log(scene: &Scene) -> Result<Events, Failure> {
    let mut log = broker::open(&scene.global)?;
    let mut events = Events::new();
    for partition in scene.queue.partitions.all() {
        let end = log.bounds(&scene.queue, partition)?.end;
        let mut from = Offset(0);
        while from < end {
            let page = log.read(&scene.queue, partition, from, ReadLimit { records: 1_000, bytes: 1 << 20 })?;
            for stored in page.records {
                let flight = Flight::parse(stored.record.value.as_deref().unwrap_or_default());
                let flight =
                    flight.map_err(|why| Failure::new(Code::Corrupt, "the log holds other events").cause(why))?;
                events.insert((partition.0, stored.offset), flight);
            }
            from = page.next;
        }
    }
    Ok(events)
}

/// The ledger as it lies in the store.
struct Ledger {
    /// In the order of writing.
    journal: Vec<Entry>,
    totals: BTreeMap<String, Totals>,
}

impl Ledger {
    fn read(books: &mut Books) -> Result<Self, Failure> {
        Ok(Self { journal: books.journal()?, totals: books.totals()? })
    }
}

/// What the store refused, as it noted itself when it did.
#[derive(Clone, Copy, Default)]
struct Refused {
    jobs: u64,
    writes: u64,
}

impl Refused {
    fn read(scene: &Scene) -> Result<Self, Failure> {
        let partitions = Store::named(&scene.global)?.look(&scene.queue, &scene.group)?.unwrap_or_default();
        let late = || partitions.iter().flat_map(|partition| &partition.refused);
        Ok(Self { jobs: late().map(|l| l.jobs).sum(), writes: late().map(|l| l.writes).sum() })
    }
}

#[cfg(test)]
mod tests;
