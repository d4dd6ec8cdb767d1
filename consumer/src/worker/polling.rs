//! The polling thread: polls the group and runs nothing else.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, bounded};

use crate::{
    error::{Detail, Error},
    fence::Lease,
    group::{Group, GroupEvent},
};

/// What the polling thread tells the desk.
#[derive(Debug)]
pub(crate) enum Polled {
    /// Something happened in the group.
    Event(GroupEvent),
    /// The group does not answer; it is polled again.
    Away(Error),
    /// It answers again.
    Back,
    /// It cannot go on.
    Failed(Error),
}

/// How long one poll may wait for something to happen: bounds how late a silent thread is noticed.
const POLL: Duration = Duration::from_millis(100);

/// Pages of records on the way to the desk. When it is full the polling thread waits, so memory stays bounded; a desk
/// that does not read for longer than the poll limit is a stalled worker, and the lease says so.
pub(crate) const EVENTS: usize = 16;

/// Starts the thread. It ends after `Left`, a failure, or when the desk is gone.
pub(crate) fn begin(mut group: Box<dyn Group>, lease: Arc<Lease>) -> Result<Receiver<Polled>, Error> {
    let (events, theirs) = bounded(EVENTS);
    let turn = move || {
        let (mut open, mut away) = (true, false);
        while open {
            lease.polled();
            let answer = group.poll(POLL, &mut |event| {
                open &= !matches!(event, GroupEvent::Left);
                open &= events.send(Polled::Event(event)).is_ok();
            });
            let news = match answer {
                Ok(()) if away => Polled::Back,
                Ok(()) => continue,
                Err(error) if error.is_transient() => Polled::Away(error),
                Err(error) => Polled::Failed(error),
            };
            away = matches!(news, Polled::Away(_));
            open &= !matches!(news, Polled::Failed(_));
            open &= events.send(news).is_ok();
        }
    };
    std::thread::Builder::new()
        .name("keylane-polling".into())
        .spawn(turn)
        .map_err(|e| Error::Unavailable(Detail::new("cannot start the polling thread").because(e)))?;
    Ok(theirs)
}
