//! A worker of the demo: as `keylane work` runs one, with the demo's handler and without the worker's own guards.

use std::time::Duration;

use keylane_consumer::{WorkerSettings, fence::Guards};

use super::ledger::Bookkeeper;
use crate::{
    cli::{BrokerUrl, DemoWorkerArgs, Global, MoveBy},
    commands::work::{news::Reporter, work},
    exit::{Code, Failure},
};

pub(crate) fn run(args: &DemoWorkerArgs, global: &Global) -> Result<Code, Failure> {
    end_with_the_demo()?;
    let settings = settings(args, global);
    let reporter = Reporter::new(global, &args.name);
    let bookkeeper = Bookkeeper { worker: args.name.clone(), group: global.group.clone() };
    let summary = work(bookkeeper, settings, MoveBy::Cooperative, global, reporter, args.snapshot_file.as_deref())?;
    Ok(if summary.clean { Code::Done } else { Code::Failed })
}

fn settings(args: &DemoWorkerArgs, global: &Global) -> WorkerSettings {
    let mut settings = WorkerSettings::named(&args.name);
    // Short, so that nobody waits long for a take-over; what is proved and how is as ever.
    settings.ownership.session = match global.broker {
        BrokerUrl::Sqlite(_) => Duration::from_millis(2_500),
        // Brokers take no shorter one unless told to.
        BrokerUrl::Kafka(_) => Duration::from_secs(6),
    };
    settings.ownership.margin = Duration::from_millis(300);
    settings.ownership.drain = Duration::from_secs(3);
    settings.prove_every = Duration::from_millis(300);
    settings.lanes.running = 4;
    // After an unclean take-over the jobs that may have been running are started with care: few, if few were known.
    settings.lanes.held_jobs = 100;
    settings.lanes.known_jobs = 200;
    settings.guards = Guards { row: !args.no_fence, deadline: false, let_go: false, ..Guards::default() };
    settings
}

/// A demo that is killed takes its workers with it: it holds the other end of their standard input.
fn end_with_the_demo() -> Result<(), Failure> {
    // A frozen worker cannot see that end, but the kernel can.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Failure::new(Code::Bug, "cannot tie a worker's life to the demo's").because(&error))?;
    let watch = || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink()); // an error is an end too
        std::process::exit(Code::Interrupted as i32);
    };
    let started = std::thread::Builder::new().name("keylane-demo".into()).spawn(watch);
    started.map_err(|error| Failure::new(Code::Unavailable, "cannot start a thread").because(&error))?;
    Ok(())
}
