//! A run in plain sentences, one for each step.

use keylane_consumer::store::ClaimRefused;

use super::{
    explore::Machine,
    protocol::{Fault, Protocol, Step},
    world::{Broken, Claim, Id, Key, Stage, Told, Whose, World, Write},
};

/// The run that these steps are, and what it comes to. `circle`: what then happens again and again.
pub(crate) fn story(protocol: &Protocol, way: &[Step], circle: &[Step]) -> String {
    let mut world = protocol.start();
    let mut lines = vec!["a has joined the group.".to_owned()];
    let mut play = |steps: &[Step], lines: &mut Vec<String>| {
        for &step in steps {
            let next = protocol.take(&world, step);
            lines.push(sentence(&world, step, &next));
            world = next;
        }
    };
    play(way, &mut lines);
    if !circle.is_empty() {
        lines.push("And from here on, again and again:".to_owned());
        play(circle, &mut lines);
    }
    lines.iter().enumerate().map(|(at, line)| format!("{:>3}. {line}\n", at + 1)).collect()
}

fn sentence(before: &World, step: Step, after: &World) -> String {
    match step {
        Step::Join(id) => format!("{} joins the group.", id.name()),
        Step::Give(id) => {
            format!("The group gives the partition to {}, in generation {}.", id.name(), after.group.generation)
        }
        Step::Expel(id) => format!("{} is silent for too long, and the group forgets it.", id.name()),
        Step::Hear(id) => heard(before, id),
        Step::Prove(id) => format!("{} commits to the group, which takes it.", id.name()),
        Step::HearProof(id) if after.worker(id).rejoins => {
            format!("{} hears that: it is a member, and will join anew to get another generation.", id.name())
        }
        Step::HearProof(id) => match after.worker(id).claim {
            Some(_) => format!(
                "{} hears that: its generation is current, so the group began anew. It says fence_ahead.",
                id.name()
            ),
            None => format!("{} hears that.", id.name()),
        },
        Step::FindOut(id) => format!("{} finds out that the group does not know it any more, and lets go.", id.name()),
        Step::Rejoin(id) => format!("{} leaves the group, to join it anew.", id.name()),
        Step::Start(id) => {
            format!("{} is started again, and opens the store in epoch {}.", id.name(), after.worker(id).session)
        }
        Step::Begin(id, key) => match after.worker(id).lanes[key as usize] {
            Some(write) => format!("{} begins to write job {}; the row is its own.", id.name(), job(key, write)),
            None => {
                format!("{} begins to write a job of key {} and is fenced: {}.", id.name(), key.name(), why(before))
            }
        },
        Step::Commit(id, key) => {
            let write = before.worker(id).lanes[key as usize].expect("it was open");
            landed(id, key, write, after)
        }
        Step::Look(id) => {
            format!(
                "{} has nothing to do, looks at the row, and finds that its claim does not hold: {}.",
                id.name(),
                why(before)
            )
        }
        Step::BeginLate(id) => match after.worker(id).late {
            Some((key, write)) => format!(
                "A handler of {} that did not heed the loss begins to write job {}; the check passes.",
                id.name(),
                job(key, write)
            ),
            None => format!("A handler of {} that did not heed the loss writes, and is fenced.", id.name()),
        },
        Step::CommitLate(id) => {
            let (key, write) = before.worker(id).late.expect("it was open");
            landed(id, key, write, after)
        }
        Step::Note(id, which) if after.worker(id).notes[usize::from(which)] => {
            format!("{} begins another small transaction, and holds the row.", id.name())
        }
        Step::Note(id, _) => format!("{} begins another small transaction, and is fenced.", id.name()),
        Step::EndNote(id, _) => format!("{}'s small transaction ends, and lets the row go.", id.name()),
        Step::AskAgain(id) => format!("{} asks for the row again.", id.name()),
        Step::Learn(id) => format!("{} learns the answer.", id.name()),
        Step::Announce(whose) => {
            let claim = before.claim(whose).expect("it is on its way");
            format!("{} announces its claim in generation {}.", claimant(whose, claim), claim.generation)
        }
        Step::Decide(whose) => decided(before, whose, after),
        Step::Vanish => "The claim of the dead process is lost on its way.".to_owned(),
        Step::TimeOut(id) => format!("The store ends the transaction of {}, which stands still.", id.name()),
        Step::Thaw(id) => format!("{} goes on.", id.name()),
        Step::ResetFence => {
            format!("The operator resets the fence: epoch {}, generation 0.", after.store.rows.fence.epoch)
        }
        Step::EndProcess(id) => format!("The operator ends the frozen process {}.", id.name()),
        Step::Fault(fault, id, key) => failed(before, fault, id, key, after),
    }
}

fn why(before: &World) -> &'static str {
    let other_history = before.store.rows.fence.timeline != before.store.timeline;
    if other_history { "the store has failed over since the claim" } else { "the row is not its own" }
}

fn heard(before: &World, id: Id) -> String {
    match before.worker(id).inbox.first().expect("there was something to hear") {
        Told::Assigned(given) => format!(
            "{} hears that the partition is its own, in generation {}, and claims it.",
            id.name(),
            given.generation
        ),
        Told::Lost => format!("{} hears that it has lost the partition.", id.name()),
        Told::MovedOn(number) => format!("{} hears that the group is in generation {number}.", id.name()),
    }
}

fn decided(before: &World, whose: Whose, after: &World) -> String {
    let claim = before.claim(whose).expect("it was on its way");
    let who = claimant(whose, claim);
    let granted = after.store.truth_grants > before.store.truth_grants;
    let answer = match after.claim(whose).map(|claim| claim.stage) {
        _ if granted => format!("granted (claim {})", after.store.rows.fence.claim),
        Some(Stage::Refused(ClaimRefused::RowAhead)) => "refused: the row is ahead".to_owned(),
        Some(Stage::Refused(ClaimRefused::EqualGeneration)) => {
            "refused: another was first in this generation".to_owned()
        }
        Some(Stage::Refused(ClaimRefused::OtherEpoch)) => "refused: the fence was reset".to_owned(),
        _ => "refused".to_owned(),
    };
    format!("The store decides the claim of {who} in generation {}: {answer}.", claim.generation)
}

fn failed(before: &World, fault: Fault, id: Id, key: Key, after: &World) -> String {
    let (name, other) = (id.name(), id.other().name());
    match fault {
        Fault::Freeze => format!("{name} stands still."),
        Fault::Die => format!("{name} is killed."),
        Fault::Move => format!(
            "The group takes the partition from {name}, which has not heard of it, and gives it to {other} in generation {}.",
            after.group.generation
        ),
        Fault::DealTwice => format!(
            "A metadata change: {other} gets the partition in generation {0}, and {name} will read generation {0} for its older assignment.",
            after.group.generation
        ),
        Fault::TakeSeat => {
            format!("{other} takes the place of {name} in the same generation, {}.", after.group.generation)
        }
        Fault::Restart => "The group is deleted; it will begin anew at generation 1.".to_owned(),
        Fault::FailOver => format!(
            "The store fails over and has lost the last claim: the row is back at generation {}.",
            after.store.rows.fence.generation
        ),
        Fault::LoseWrite => "The store fails over and has lost the last write; the claim is there.".to_owned(),
        Fault::LoseAnswer => format!("The answer to {name}'s claim is lost."),
        Fault::CutCommit => {
            let write = before.worker(id).lanes[key as usize].expect("it was open");
            format!("{} And {name} does not hear of it.", landed(id, key, write, after))
        }
    }
}

fn landed(id: Id, key: Key, write: Write, after: &World) -> String {
    let verdict = match after.broken {
        Some(Broken::Stale) => "lands: STALE, a newer claim was granted",
        Some(Broken::Twice) => "lands: TWICE",
        Some(Broken::OutOfOrder) => "lands: OUT OF ORDER, the job before it has no effect in the store",
        _ => "commits",
    };
    format!("{}'s write of job {} {verdict}.", id.name(), job(key, write))
}

fn job(key: Key, write: Write) -> String {
    format!("{}{}", key.name(), write.job)
}

fn claimant(whose: Whose, claim: &Claim) -> String {
    match whose {
        Whose::Worker(id) => id.name().to_owned(),
        Whose::Nobody => format!("the dead process {}", claim.owner.id.name()),
    }
}
