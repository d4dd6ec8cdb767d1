//! What other threads ask of the member: an inbox that the polling thread empties, and the two calls that wait for the
//! coordinator's answer, on the thread that asks.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keylane_producer::{
    Offset, Partition,
    kafka::rdkafka::error::{KafkaError, RDKafkaErrorCode},
};

use super::client::Client;
use crate::{
    error::{Detail, Error},
    fence::{Generation, MemberId},
    group::{Commit, CommitError, GroupControl, command::Command},
};

/// How long to wait for what is committed. A transaction that is open over it holds the answer up.
const COMMITTED: Duration = Duration::from_secs(10);

/// What both sides know.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) commands: VecDeque<Command>,
    /// What this member owns, and the offset that was last committed for each.
    pub(super) owned: BTreeMap<Partition, Option<Offset>>,
    /// A commit was told that the group does not know this member.
    pub(super) disowned: bool,
    /// A commit was told that the group's number is another than the one last told: this one.
    pub(super) moved_on: Option<(MemberId, Generation)>,
    /// A commit was answered: somebody is there.
    pub(super) alive: bool,
    /// The client is closing: its own thread may answer nothing any more.
    pub(super) closing: bool,
    /// The guards that a twin takes away.
    pub(super) unchecked: bool,
}

pub(super) struct KafkaControl {
    client: Arc<Client>,
    shared: Mutex<Shared>,
}

impl KafkaControl {
    pub(super) fn new(client: Arc<Client>) -> Self {
        Self { client, shared: Mutex::default() }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        // No code panics while it holds the lock half-changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, command: Command) {
        self.shared().commands.push_back(command);
        self.client.wake();
    }

    /// A plain commit carries the number that the client has when it is sent, whoever asked: so what it is, is compared
    /// before, and again after. What lies between can move an offset of a partition that was just lost, which costs
    /// nothing (progress is in the store), and never counts as a proof.
    fn compare(&self, commit: &Commit) -> Result<(), CommitError> {
        if self.shared().unchecked {
            return Ok(());
        }
        let Some((member, generation)) = self.client.standing() else { return Err(CommitError::UnknownMember) };
        if member != commit.member {
            return Err(CommitError::UnknownMember);
        }
        if generation != commit.generation {
            self.shared().moved_on = Some((member, generation));
            return Err(CommitError::GenerationMovedOn);
        }
        Ok(())
    }

    /// Kafka looks at the member, not at the partition.
    fn check_owned(&self, offsets: &[(Partition, Offset)]) -> Result<(), CommitError> {
        let shared = self.shared();
        match offsets.iter().find(|(partition, _)| !shared.owned.contains_key(partition)) {
            Some(&(other, _)) if !shared.unchecked => Err(CommitError::NotOwner(other)),
            _ => Ok(()),
        }
    }

    /// Something to commit that changes nothing, for a proof: Kafka takes no empty commit.
    fn anything(&self, limit: Duration) -> Result<Vec<(Partition, Offset)>, CommitError> {
        let unavailable = |what: &str, error: &KafkaError| {
            CommitError::Unavailable(self.client.context().explain(what, error).into())
        };
        let (known, one) = {
            let shared = self.shared();
            let known = shared.owned.iter().find_map(|(&p, offset)| Some((p, (*offset)?)));
            (known, shared.owned.keys().next().copied())
        };
        if let Some(known) = known {
            return Ok(vec![known]);
        }
        let Some(partition) = one else {
            let detail = Detail::new("a member without partitions has nothing to commit, so it can prove nothing");
            return Err(CommitError::Unavailable(Error::Unavailable(detail)));
        };
        let committed = self.client.committed(&[partition], limit);
        let committed = committed.map_err(|e| unavailable("cannot ask what is committed", &e))?;
        match committed.into_iter().find_map(|(_, offset)| offset) {
            Some(offset) => Ok(vec![(partition, offset)]),
            // Nothing yet: where a group without offsets begins.
            None => {
                let first = self.client.first(partition, limit);
                Ok(vec![(partition, first.map_err(|e| unavailable("cannot ask where a partition begins", &e))?)])
            }
        }
    }
}

impl GroupControl for KafkaControl {
    fn resume(&self, partition: Partition, from: Offset) {
        self.send(Command::Resume(partition, from));
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.send(Command::GoOn(partition, from));
    }

    fn pause(&self, partition: Partition) {
        self.send(Command::Pause(partition));
    }

    fn release(&self, partitions: &[Partition]) {
        self.send(Command::Release(partitions.to_vec()));
    }

    fn rejoin(&self) {
        self.send(Command::Rejoin);
    }

    fn leave(&self) {
        self.send(Command::Leave);
    }

    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError> {
        if self.shared().closing {
            return Err(CommitError::UnknownMember);
        }
        let answer = self.compare(commit).and_then(|()| {
            let offsets = if commit.offsets.is_empty() { self.anything(limit)? } else { commit.offsets.clone() };
            self.check_owned(&offsets)?;
            self.client.commit(&offsets, limit).map_err(|error| self.sort(&error))?;
            self.shared().alive = true;
            self.compare(commit)?;
            let mut shared = self.shared();
            for (partition, offset) in offsets {
                if let Some(known) = shared.owned.get_mut(&partition) {
                    *known = Some(offset);
                }
            }
            Ok(())
        });
        if matches!(answer, Err(CommitError::UnknownMember | CommitError::GenerationMovedOn)) {
            self.client.wake();
        }
        answer
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        let answer = self.client.committed(partitions, COMMITTED);
        let answer: BTreeMap<_, _> = answer
            .map_err(|e| self.client.context().explain("cannot ask what is committed", &e))?
            .into_iter()
            .collect();
        let mut shared = self.shared();
        for (partition, offset) in &answer {
            if let Some(known) = shared.owned.get_mut(partition) {
                *known = known.or(*offset);
            }
        }
        Ok(answer)
    }
}

impl KafkaControl {
    /// Why a commit was refused: <https://kafka.apache.org/protocol#protocol_error_codes>.
    fn sort(&self, error: &KafkaError) -> CommitError {
        use RDKafkaErrorCode as Code;
        match error.rdkafka_error_code() {
            // The second: the leader has not told yet who gets what.
            Some(Code::IllegalGeneration | Code::RebalanceInProgress) => CommitError::GenerationMovedOn,
            Some(Code::UnknownMemberId | Code::FencedInstanceId | Code::GroupIdNotFound) => {
                self.shared().disowned = true;
                CommitError::UnknownMember
            }
            Some(Code::Fatal) => {
                CommitError::Fatal(self.client.context().explain("the Kafka client cannot go on", error).into())
            }
            _ => CommitError::Unavailable(self.client.context().explain("cannot commit", error).into()),
        }
    }
}
