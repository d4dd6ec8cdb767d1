//! The signal that asks a process that serves to end.

use std::process;

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tokio::sync::oneshot;

use crate::exit::{Code, Failure};

/// Answers the signal that asks this process to end. The second one ends it at once.
pub(crate) fn asked_to_end() -> Result<oneshot::Receiver<i32>, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::new(Code::Unavailable, "cannot listen for signals").because(&error))?;
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if let Some(signal) = signals.next() {
            let _ = tell.send(signal);
        }
        if signals.next().is_some() {
            process::exit(Code::Interrupted as i32);
        }
    });
    Ok(told)
}
