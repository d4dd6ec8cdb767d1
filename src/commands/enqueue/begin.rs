//! Where an import begins: at the start, where it was cut off, or not at all.
//!
//! | checkpoint of this source | no flag | `--resume` | `--restart` |
//! |---|---|---|---|
//! | none | start | start | start |
//! | cut off | refused | after it | start |
//! | cut off, the source changed before it | refused | refused | start |
//! | whole | refused | after it: what was added since, or nothing | start |
//! | whole, the source changed before it | start: it is another one under the same name | refused | start |

use std::io::Read;

use keylane_producer::{Enqueuer, Log, log::Checkpoint};

use super::source::Source;
use crate::{
    cli::EnqueueArgs,
    exit::{Code, Failure},
    input::Tape,
    output::counted,
};

/// Where to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Start,
    After(Checkpoint),
    /// All of it is on the queue.
    Nowhere {
        lines: u64,
    },
}

/// What the source is to its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Same {
        has_more: bool,
    },
    Changed,
    /// A stream: only reading it tells.
    Unseen,
}

impl Begin {
    pub(super) fn is_start(&self) -> bool {
        *self == Self::Start
    }

    pub(super) fn decide(
        source: &Source,
        args: &EnqueueArgs,
        enqueuer: &mut Enqueuer<Box<dyn Log>>,
    ) -> Result<Self, Failure> {
        let Some(name) = source.name() else { return Ok(Self::Start) };
        let queue = enqueuer.queue().clone();
        let Some(checkpoint) = enqueuer.log().checkpoint(&queue, name)? else { return Ok(Self::Start) };
        if args.restart {
            return Ok(Self::Start);
        }
        let sight = if source.is_file() { look(source, &checkpoint)? } else { Sight::Unseen };
        let lines = counted(checkpoint.position, "line");
        let on_queue = format!("on queue '{}'", queue.name);
        match (checkpoint.complete, args.resume, sight) {
            (_, true, Sight::Changed) => Err(changed(source, &checkpoint)),
            (true, true, Sight::Same { has_more: false }) => Ok(Self::Nowhere { lines: checkpoint.position }),
            (_, true, _) => Ok(Self::After(checkpoint)),
            (true, false, Sight::Changed) => Ok(Self::Start),
            (true, false, _) => Err(Failure::new(
                Code::BadInput,
                format!("{source} was sent before, to its end: {lines} of it are {on_queue}; nothing was sent now"),
            )
            .remedy("--resume sends only what was added since; --restart sends every line once more")),
            (false, false, Sight::Changed) => Err(Failure::new(
                Code::BadInput,
                format!(
                    "an import of {source} was cut off: {lines} are {on_queue}, and the file changed since; \
                     nothing was sent now"
                ),
            )
            .remedy("put the file back as it was and use --resume; --restart sends every line of the new one")),
            (false, false, _) => Err(Failure::new(
                Code::BadInput,
                format!("an import of {source} was cut off: {lines} are {on_queue}; nothing was sent now"),
            )
            .remedy("--resume goes on after them; --restart sends every line once more")),
        }
    }
}

fn look(source: &Source, checkpoint: &Checkpoint) -> Result<Sight, Failure> {
    let unreadable = |error| source.unreadable(&error);
    let mut tape = Tape::new(source.reader()?);
    if !is_at(&mut tape, checkpoint).map_err(unreadable)? {
        return Ok(Sight::Changed);
    }
    Ok(Sight::Same { has_more: !tape.peek().map_err(unreadable)?.is_empty() })
}

fn is_at<R: Read>(tape: &mut Tape<R>, checkpoint: &Checkpoint) -> std::io::Result<bool> {
    Ok(tape.skip_to_line(checkpoint.position)? && tape.digest() == *checkpoint.digest)
}

/// The answer to a source that is not the one whose lines were sent.
pub(super) fn changed(source: &Source, checkpoint: &Checkpoint) -> Failure {
    let lines = counted(checkpoint.position, "line");
    Failure::new(
        Code::BadInput,
        format!("{source} changed: its first {lines}, which are on the queue, were others then; nothing was sent now"),
    )
    .remedy("put it back as it was, or send all of it as something new with --restart")
}
