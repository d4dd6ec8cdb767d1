//! A worker whose group does not answer waits, and takes no processor for it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
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

/// Whether commits are held up: one rig of this process has such a group.
static HELD_UP: AtomicBool = AtomicBool::new(false);

/// A group whose commits get no answer while they are held up.
struct Mute(LocalGroup);

struct MuteControl(Arc<dyn GroupControl>);

impl Group for Mute {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        self.0.poll(limit, sink)
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::new(MuteControl(self.0.control()))
    }
}

impl GroupControl for MuteControl {
    fn resume(&self, partition: Partition, from: Offset) {
        self.0.resume(partition, from);
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.0.go_on(partition, from);
    }

    fn pause(&self, partition: Partition) {
        self.0.pause(partition);
    }

    fn release(&self, partitions: &[Partition]) {
        self.0.release(partitions);
    }

    fn rejoin(&self) {
        self.0.rejoin();
    }

    fn leave(&self) {
        self.0.leave();
    }

    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError> {
        while HELD_UP.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(10));
        }
        self.0.commit(commit, limit)
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        self.0.committed(partitions)
    }
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
    let rig =
        Rig::with(4, |settings| settings.ownership.session = Duration::from_secs(3)).between(|g| Box::new(Mute(g)));
    // Notices come on the desk's own thread.
    let seen = Arc::new(Mutex::new((None, None)));
    let noted = Arc::clone(&seen);
    let worker = rig.spawn_with(
        "w",
        Duration::from_secs(60),
        |job: JobContext| async move { tell(&job) },
        move |notice| {
            let mut noted = noted.lock().unwrap();
            match notice {
                Notice::TookOver { .. } => noted.0 = Some(processor_time()),
                Notice::Halted(_) => noted.1 = Some(processor_time()),
                _ => {}
            }
        },
    );
    rig.wait_for("all partitions", || worker.owned() == 4);
    HELD_UP.store(true, Ordering::SeqCst);
    rig.wait_for("the last proof is too old", || seen.lock().unwrap().1.is_some());
    HELD_UP.store(false, Ordering::SeqCst);
    let (before, after) = *seen.lock().unwrap();
    // Nearly three seconds lie between.
    let took = after.unwrap() - before.unwrap();
    assert!(took < Duration::from_millis(500), "the desk's thread took {took:?} of processor");
    assert!(worker.end().clean);
}
