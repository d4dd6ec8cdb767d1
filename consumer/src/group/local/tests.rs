//! The suite of the port on the embedded group, the suite with a guard removed, and what only this adapter promises.

use keylane_producer::{
    Log, Offset, Partition, PartitionCount, QueueSpec, Record, Timestamp,
    log::local::{LocalLog, Open},
    sqlite::Patience,
};

use super::{schema::Guards, *};
use crate::group::conformance::{self, Bench};

mod adapter;
mod processes;

/// A queue file of its own, and a clock that stands still until the test turns it.
pub(super) struct Folder {
    folder: tempfile::TempDir,
    queue: QueueIdentity,
    clock: Clock,
    guards: Guards,
}

impl Folder {
    pub(super) fn with_queue(partitions: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.db");
        let mut log = LocalLog::open(&path, Open::Create, Patience::Patient).unwrap();
        let partitions = partitions.to_string().parse::<PartitionCount>().unwrap();
        let spec = QueueSpec::new("jobs".parse().unwrap(), partitions);
        let queue = log.create(&spec).unwrap();
        Self { folder, queue, clock: Clock::by_hand(), guards: Guards::default() }
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("queue.db")
    }

    pub(super) fn group() -> GroupName {
        "workers".parse().unwrap()
    }

    pub(super) fn place(&self) -> Place {
        let log = schema::open_log(&self.path()).unwrap();
        let mut place = Place::find(&log, &self.queue, &Self::group(), self.clock.clone()).unwrap();
        place.guards = self.guards;
        place
    }

    pub(super) fn member_with(&self, settings: LocalGroupSettings) -> LocalGroup {
        LocalGroup::at(&self.path(), &self.queue, self.place(), settings).unwrap()
    }
}

impl Bench for Folder {
    type Member = LocalGroup;

    fn open(&self) -> LocalGroup {
        self.member_with(LocalGroupSettings::default())
    }

    fn append(&self, partition: Partition, count: usize) -> Vec<Offset> {
        let record =
            Record { key: Some("k".into()), value: Some("v".into()), headers: Vec::new(), timestamp: Timestamp(0) };
        let records = vec![(partition, record); count];
        let mut log = LocalLog::open(&self.path(), Open::Existing, Patience::Patient).unwrap();
        log.append(&self.queue, records, None).unwrap().into_iter().map(|receipt| receipt.offset).collect()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn session_timeout(&self) -> Duration {
        LocalGroupSettings::default().session_timeout
    }
}

mod suite {
    use super::Folder;

    crate::group_conformance!(Folder::with_queue);
}

/// Each guard removed, and the claim that falls with it.
mod twins {
    use super::*;

    fn without_commit_check(partitions: u32) -> Folder {
        let guards = Guards { commit: false, ..Guards::default() };
        Folder { guards, ..Folder::with_queue(partitions) }
    }

    #[test]
    #[should_panic(expected = "a stale commit landed")]
    fn a_stale_member_commits_if_nobody_looks() {
        conformance::a_stale_member_cannot_commit(without_commit_check);
    }

    #[test]
    #[should_panic(expected = "a stale commit landed")]
    fn a_former_self_commits_if_nobody_looks() {
        conformance::a_former_self_cannot_commit(without_commit_check);
    }

    #[test]
    #[should_panic(expected = "a stale commit landed")]
    fn a_stale_generation_commits_if_nobody_looks() {
        conformance::a_stale_generation_cannot_commit(without_commit_check);
    }

    #[test]
    #[should_panic(expected = "moved without its owner's release")]
    fn two_owners_overlap_if_release_is_not_awaited() {
        conformance::a_revoked_partition_moves_only_after_its_release(|partitions| {
            let guards = Guards { release: false, ..Guards::default() };
            Folder { guards, ..Folder::with_queue(partitions) }
        });
    }
}
