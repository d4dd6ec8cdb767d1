//! The fence rows for `keylane fence show`. The numbers of the token come out by [`FenceRow::reveal`] only, so that no
//! default output can show them.

use std::fmt;

use keylane_producer::{Partition, Timestamp};

/// A partition's row in the store.
#[derive(Clone)]
pub struct FenceRow {
    /// The queue's name.
    pub queue: Box<str>,
    /// The group's name.
    pub group: Box<str>,
    /// Which partition.
    pub partition: Partition,
    /// Who claimed it last; `None`: nobody yet.
    pub worker: Option<Box<str>>,
    /// When.
    pub claimed_at: Option<Timestamp>,
    /// Whether it is closed to claims.
    pub closed: bool,
    /// Whether the last owner finished in order.
    pub handed_over: bool,
    pub(super) numbers: TokenNumbers,
}

/// What a write must match, in plain numbers: for a person who repairs a fence. It cannot be turned into a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenNumbers {
    /// Raised by an operator only.
    pub epoch: u64,
    /// The group's number when the partition was claimed; 0 if it never was.
    pub generation: u64,
    /// The number that the store minted.
    pub claim: u64,
    /// Member and nonce of the claimant.
    pub owner: Box<str>,
}

impl FenceRow {
    /// The token's numbers. Whoever shows them says so on purpose.
    pub fn reveal(&self) -> &TokenNumbers {
        &self.numbers
    }
}

impl fmt::Debug for FenceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FenceRow({}/{}/{}, {:?}, [fence])", self.queue, self.group, self.partition, self.worker)
    }
}
