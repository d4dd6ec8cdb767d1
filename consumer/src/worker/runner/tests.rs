//! Two threads for handlers, and jobs that keep them in each way a handler can.

use std::{collections::BTreeSet, sync::Barrier};

use keylane_producer::{Attempt, Job, JobKey, Offset, Partition};

use super::*;
use crate::{
    fence::{FenceToken, Generation, Lease},
    lanes::Tenure,
    store::sqlite::SqliteStore,
};

const LIMIT: Duration = Duration::from_secs(60);

struct Rig<H> {
    runner: Runner<SqliteStore, H>,
    fence: Arc<Fence>,
}

impl<H: Handler<SqliteStore>> Rig<H> {
    fn new(handler: H) -> Self {
        let mut settings = WorkerSettings::named("test");
        settings.handler_threads = 2;
        let lease = Lease::new(Clock::boot(), LIMIT);
        lease.proved(Clock::boot().now().plus(LIMIT));
        let token = FenceToken::minted(1, Generation::new(1).unwrap(), 1);
        let fence = Fence::raise(Partition(0), token, lease);
        Self { runner: Runner::new(&settings, handler, Clock::boot()).unwrap(), fence }
    }

    /// Starts these jobs in one turn.
    fn start(&mut self, jobs: std::ops::Range<u64>) {
        for offset in jobs.map(Offset) {
            let job = Arc::new(Job::new(JobKey::try_from("k").unwrap(), None).unwrap());
            let (partition, attempt, cancel) = (Partition(0), Attempt::FIRST, CancellationToken::new());
            let context = JobContext { job, partition, offset, attempt, pass: None, cancel };
            self.runner.start(Ticket { partition, tenure: Tenure(1), offset }, context, Arc::clone(&self.fence));
        }
        self.runner.set_off();
    }

    /// The next so many jobs that are done.
    #[track_caller]
    fn done(&self, jobs: usize) -> BTreeSet<u64> {
        let next = |_| match self.runner.ends.recv_timeout(LIMIT) {
            Ok(End { ticket, how: Ended::With(Outcome::Done(_)), .. }) => ticket.offset.0,
            Ok(_) => panic!("a job ended in another way"),
            Err(_) => panic!("a job waits in line that nobody takes"),
        };
        (0..jobs).map(next).collect()
    }
}

#[test]
fn jobs_that_await_leave_their_thread_to_the_line() {
    let together = Arc::new(tokio::sync::Barrier::new(64));
    let mut rig = Rig::new(move |_: JobContext| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            Outcome::done()
        }
    });
    rig.start(0..64);
    assert_eq!(rig.done(64), (0..64).collect());
}

#[test]
fn jobs_that_give_their_thread_away_do_not_hold_up_the_line() {
    let together = Arc::new(Barrier::new(16));
    let mut rig = Rig::new(move |_: JobContext| {
        let together = Arc::clone(&together);
        async move {
            tokio::task::block_in_place(|| together.wait());
            Outcome::done()
        }
    });
    rig.start(0..16);
    assert_eq!(rig.done(16), (0..16).collect());
}

#[test]
fn a_job_that_keeps_its_thread_holds_up_no_other() {
    let (go, gone) = bounded::<()>(0);
    let mut rig = Rig::new(move |context: JobContext| {
        let gone = gone.clone();
        async move {
            if context.offset == Offset(3) {
                let _ = gone.recv();
            }
            Outcome::done()
        }
    });
    rig.start(0..40);
    assert_eq!(rig.done(39), (0..40).filter(|&job| job != 3).collect());
    rig.start(40..60);
    assert_eq!(rig.done(20), (40..60).collect());
    drop(go);
    assert_eq!(rig.done(1), BTreeSet::from([3]));
}

#[test]
fn a_job_that_panics_leaves_the_line_as_it_was() {
    let mut rig = Rig::new(|context: JobContext| async move {
        assert_ne!(context.offset, Offset(0), "the first job");
        Outcome::done()
    });
    rig.start(0..1);
    assert!(
        matches!(rig.runner.ends.recv_timeout(LIMIT), Ok(End { how: Ended::Panicked(words), .. }) if words.contains("first job"))
    );
    rig.start(1..20);
    assert_eq!(rig.done(19), (1..20).collect());
}
