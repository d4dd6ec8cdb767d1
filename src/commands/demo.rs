//! `keylane demo`: the promise made visible. One worker is frozen, one is killed, and each aircraft's ledger must come out
//! right all the same.
//!
//! - [`stage`]: the folder, the queue with its events, the ledger
//! - [`flight`], [`ledger`]: an event, and what it does to the ledger; [`books`]: its tables
//! - [`worker`]: a worker's process; [`actors`]: the three of them, started, frozen, killed
//! - [`page`]: sidecars and a board of the workers, as a user would run them
//! - [`sight`]: what queue and store say now; [`play`]: waits, and tells what changed
//! - [`story`]: the words; [`verdict`]: everything checked anew
//!
//! The workers run without their own deadline, and do not let go when the group expels them, as in a virtual machine that
//! was paused and whose clock stood still. So the store's row alone stands between a zombie and the ledger, and
//! `--no-fence` shows what happens without it.

mod actors;
mod books;
mod flight;
mod ledger;
mod page;
mod play;
mod sight;
mod stage;
mod story;
mod verdict;
mod worker;

use std::{io::IsTerminal, time::Duration};

use self::{actors::Role, page::Page, play::Play, sight::Sight, stage::Stage, story::Event, verdict::Verdict};
use crate::{
    cli::{DemoArgs, Global},
    exit::{Code, Failure},
    output::Output,
};

pub(crate) use worker::run as work;

const FROZEN: Role = Role(2);
const KILLED: Role = Role(3);

/// For everything that takes a second or three on a quiet machine.
const STEP: Duration = Duration::from_secs(45);
/// For the rest of the events.
const REST: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &DemoArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let fenced = !args.no_fence;
    let watched = is_watched(output.is_json());
    let mut play = Play::begin(global, output)?;
    let stage = Stage::build(args.keep, global)?;
    let scene = stage.scene();
    play.tell(&Event::Enqueued {
        jobs: scene.jobs,
        aircraft: scene.aircraft,
        partitions: scene.queue.partitions.0.get(),
        fence: fenced,
    })?;
    let page = if args.no_page || global.quiet { None } else { open_page(&mut play, scene, watched)? };
    perform(&mut play, scene, fenced, page.is_some())?;
    let verdict = Verdict::reach(scene, fenced)?;
    let kept = stage.end();
    if let Some(page) = &page {
        page.say(&verdict);
    }
    play.tell(&Event::Verdict { verdict: &verdict, kept: kept.as_deref() })?;
    if let Some(page) = page.filter(|_| watched) {
        play.tell(&Event::PageStays { url: page.url() })?;
        play.wait_for_the_user();
    }
    Ok(if verdict.holds() { Code::Done } else { Code::Failed })
}

/// Without it the story is the same.
fn open_page(play: &mut Play<'_>, scene: &stage::Scene, watched: bool) -> Result<Option<Page>, Failure> {
    match Page::open(scene) {
        Ok(page) => {
            play.tell(&Event::Page { url: page.url() })?;
            if watched {
                page.show();
            }
            Ok(Some(page))
        }
        Err(failure) => {
            play.tell(&Event::NoPage { why: failure.what().to_owned() })?;
            Ok(None)
        }
    }
}

/// Whether somebody sits at a terminal and reads.
fn is_watched(is_json: bool) -> bool {
    !is_json && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// The whole story. Whatever ends it, the actors end with it.
fn perform(play: &mut Play<'_>, scene: &stage::Scene, fenced: bool, shown: bool) -> Result<(), Failure> {
    play.start_actors(scene, fenced, shown)?;
    play.until("all three workers have their share of the partitions and apply events", STEP, |sight| {
        Role::ALL.iter().all(|&role| sight.partitions_of(role).len() == sight.share() && sight.applied(role) > 50)
    })?;
    let theirs = play.freeze(FROZEN)?;
    play.until("another worker owns every partition of the frozen one", STEP, |sight| {
        theirs.iter().all(|&partition| sight.owner(partition) != Some(FROZEN))
    })?;
    play.kill(KILLED)?;
    // At once: what it had begun ends before the new owners have done the same events.
    play.thaw(FROZEN)?;
    play.until("the frozen worker is back and the killed one's partitions are taken over", STEP, |sight| {
        sight.holds(FROZEN) && !sight.holds(KILLED)
    })?;
    play.until("every event is finished", REST, Sight::is_finished)?;
    play.end_actors()
}
