//! The workers' real [`Ownership`]s. A state of the world holds the number of one, so that it stays small.

use std::{collections::HashMap, time::Duration};

use keylane_consumer::{
    Generation,
    lanes::Tenure,
    ownership::{Action, Holding, Ownership, OwnershipLimits},
};
use keylane_producer::Partition;

/// The one partition of the model.
pub(crate) const PARTITION: Partition = Partition(0);

pub(crate) struct Minds {
    met: Vec<Ownership>,
    numbers: HashMap<Ownership, u16>,
}

impl Minds {
    pub(crate) fn new() -> Self {
        Self { met: Vec::new(), numbers: HashMap::new() }
    }

    /// That of a process that just began. Durations play no part: the model takes each step as early or late as it likes.
    pub(crate) fn fresh(&mut self) -> u16 {
        let limits = OwnershipLimits {
            session: Duration::from_secs(15),
            margin: Duration::ZERO,
            drain: Duration::ZERO,
            claim_again: Duration::from_millis(1),
        };
        self.number(Ownership::new(limits))
    }

    /// Tells one something. Returns the number of what it then is, and what it wants done.
    pub(crate) fn tell(&mut self, number: u16, word: impl FnOnce(&mut Ownership) -> Vec<Action>) -> (u16, Vec<Action>) {
        let mut ownership = self.met[usize::from(number)].clone();
        let actions = word(&mut ownership);
        (self.number(ownership), actions)
    }

    /// What the partition is to it.
    pub(crate) fn holding(&self, number: u16) -> Option<Holding> {
        self.met[usize::from(number)].holdings().next().map(|(_, _, holding)| holding)
    }

    /// The group's number as it knows it.
    pub(crate) fn generation(&self, number: u16) -> Option<Generation> {
        self.met[usize::from(number)].membership().map(|(_, generation)| *generation)
    }

    /// Whether the partition is its to run, in this tenure.
    pub(crate) fn holds(&self, number: u16, tenure: Tenure) -> bool {
        self.met[usize::from(number)].holding(PARTITION, tenure) == Some(Holding::Held)
    }

    fn number(&mut self, ownership: Ownership) -> u16 {
        if let Some(&number) = self.numbers.get(&ownership) {
            return number;
        }
        let number = u16::try_from(self.met.len()).expect("faults are few, so a worker's ways are");
        self.met.push(ownership.clone());
        self.numbers.insert(ownership, number);
        number
    }
}
