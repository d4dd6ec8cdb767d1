//! What a worker asks of its group, and what it does while it gets no answer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use keylane_consumer::{
    Error, JobContext, Notice,
    group::{Commit, CommitError, Group, GroupControl, GroupEvent, local::LocalGroup},
};
use keylane_producer::{Offset, Partition};
use rustix::time::{ClockId, clock_gettime};

use crate::rig::{Rig, tell};

/// Between a worker and its group.
#[derive(Clone, Default)]
struct Between {
    /// Commits get no answer.
    held_up: Arc<AtomicBool>,
    resumed: Arc<AtomicUsize>,
    went_on: Arc<AtomicUsize>,
}

impl Between {
    fn of(&self, group: LocalGroup) -> Box<dyn Group> {
        Box::new(Watched { group, between: self.clone() })
    }
}

struct Watched {
    group: LocalGroup,
    between: Between,
}

impl Group for Watched {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        self.group.poll(limit, sink)
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::new(Control { control: self.group.control(), between: self.between.clone() })
    }
}

struct Control {
    control: Arc<dyn GroupControl>,
    between: Between,
}

impl GroupControl for Control {
    fn resume(&self, partition: Partition, from: Offset) {
        self.between.resumed.fetch_add(1, Ordering::SeqCst);
        self.control.resume(partition, from);
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.between.went_on.fetch_add(1, Ordering::SeqCst);
        self.control.go_on(partition, from);
    }

    fn pause(&self, partition: Partition) {
        self.control.pause(partition);
    }

    fn release(&self, partitions: &[Partition]) {
        self.control.release(partitions);
    }

    fn rejoin(&self) {
        self.control.rejoin();
    }

    fn leave(&self) {
        self.control.leave();
    }

    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError> {
        while self.between.held_up.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(10));
        }
        self.control.commit(commit, limit)
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        self.control.committed(partitions)
    }
}

/// To resume it would be to begin anew: on Kafka all is fetched again that the client has of it.
#[test]
fn a_partition_that_was_full_goes_on_and_is_not_resumed() {
    let between = Between::default();
    let in_rig = between.clone();
    let rig = Rig::with(2, |settings| settings.lanes.held_jobs = 10).between(move |group| in_rig.of(group));
    rig.enqueue(1..=400, |n| format!("key-{n}"));
    let summary = rig.run_until_empty("w", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, summary.clean), (400, true));
    rig.assert_once_in_order(400);
    assert_eq!(between.resumed.load(Ordering::SeqCst), 2, "each partition once, when it was claimed");
    assert!(between.went_on.load(Ordering::SeqCst) > 0, "none was ever full");
}

/// Of the calling thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

/// Such a commit is late for as long as the group has no answer: on Kafka for most of a session while a rebalance waits for a
/// frozen member, and for as long as brokers are away. A desk that was due for the next one all that time turned without a pause.
#[test]
fn a_desk_takes_no_processor_while_a_commit_has_no_answer() {
    let between = Between::default();
    let in_rig = between.clone();
    let rig = Rig::with(4, |settings| settings.ownership.session = Duration::from_secs(3))
        .between(move |group| in_rig.of(group));
    // Notices come on the desk's own thread.
    let seen = Arc::new(Mutex::new((None, None)));
    let noted = Arc::clone(&seen);
    let listen = move |notice: &Notice| {
        let mut noted = noted.lock().unwrap();
        match notice {
            Notice::TookOver { .. } => noted.0 = Some(processor_time()),
            Notice::Halted(_) => noted.1 = Some(processor_time()),
            _ => {}
        }
    };
    let worker = rig.spawn_with("w", Duration::from_secs(60), |job: JobContext| async move { tell(&job) }, listen);
    rig.wait_for("all partitions", || worker.owned() == 4);
    between.held_up.store(true, Ordering::SeqCst);
    rig.wait_for("the last proof is too old", || seen.lock().unwrap().1.is_some());
    between.held_up.store(false, Ordering::SeqCst);
    let (before, after) = *seen.lock().unwrap();
    // Nearly three seconds lie between.
    let took = after.unwrap() - before.unwrap();
    assert!(took < Duration::from_millis(500), "the desk's thread took {took:?} of processor");
    assert!(worker.end().clean);
}
