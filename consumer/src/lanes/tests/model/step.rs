//! What happens to lanes.

use proptest::prelude::*;

use super::{KEYS, PARTITIONS};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Open {
        partition: u32,
    },
    Close {
        partition: u32,
    },
    Drain {
        partition: u32,
    },
    Offer {
        partition: u32,
        key: usize,
        size: usize,
    },
    Start,
    Ended {
        pick: usize,
    },
    Applied {
        pick: usize,
    },
    Wait {
        pick: usize,
    },
    Stop {
        pick: usize,
    },
    Due {
        pick: usize,
    },
    Release {
        partition: u32,
        key: usize,
    },
    /// A person wants the key to stand still.
    Stand {
        partition: u32,
        key: usize,
    },
    Reread {
        pick: usize,
        gone: u8,
    },
    /// Parked keys' jobs are taken to move.
    Move,
    Moved {
        pick: usize,
    },
    Line {
        pick: usize,
    },
    /// Word of a job, or of a whole tenure, that is over.
    Stale {
        pick: usize,
        word: u8,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    let pick = 0..8_usize;
    prop_oneof![
        1 => partition.clone().prop_map(|partition| Step::Open { partition }),
        1 => partition.clone().prop_map(|partition| Step::Close { partition }),
        1 => partition.clone().prop_map(|partition| Step::Drain { partition }),
        // Half of the jobs have one key.
        12 => (partition.clone(), 0..2 * KEYS, 1..120_usize)
            .prop_map(|(partition, key, size)| Step::Offer { partition, key: key.saturating_sub(KEYS), size }),
        8 => Just(Step::Start),
        6 => pick.clone().prop_map(|pick| Step::Ended { pick }),
        6 => pick.clone().prop_map(|pick| Step::Applied { pick }),
        2 => pick.clone().prop_map(|pick| Step::Wait { pick }),
        1 => pick.clone().prop_map(|pick| Step::Stop { pick }),
        3 => pick.clone().prop_map(|pick| Step::Due { pick }),
        2 => (partition.clone(), 0..KEYS).prop_map(|(partition, key)| Step::Release { partition, key }),
        2 => (partition, 0..KEYS).prop_map(|(partition, key)| Step::Stand { partition, key }),
        4 => (pick.clone(), any::<u8>()).prop_map(|(pick, gone)| Step::Reread { pick, gone }),
        4 => Just(Step::Move),
        4 => pick.clone().prop_map(|pick| Step::Moved { pick }),
        3 => pick.clone().prop_map(|pick| Step::Line { pick }),
        1 => (pick, 0..5_u8).prop_map(|(pick, word)| Step::Stale { pick, word }),
    ]
}
