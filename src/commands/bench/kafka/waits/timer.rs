//! Waits of whole microseconds. The runtime's own timer rounds up to whole milliseconds, and a handler of a user waits for a socket,
//! which rounds nothing: so does this, for a timer of the kernel's. Those are few, and used again.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Timers that nobody waits for.
#[derive(Default)]
pub(super) struct Timers(Mutex<Vec<AsyncFd<OwnedFd>>>);

impl Timers {
    pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let timer = match free {
            Some(timer) => timer,
            None => {
                register(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?)?
            }
        };
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec::try_from(time).map_err(io::Error::other)?,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        let mut times = [0; 8];
        // Not a wait that was dropped: such a timer is not used again.
        while timer.readable().await?.try_io(|timer| Ok(rustix::io::read(timer, &mut times)?)).is_err() {}
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(timer);
        Ok(())
    }
}

#[expect(unsafe_code, reason = "tokio asks for a promise about the descriptor")]
fn register(timer: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is its own, and nobody replaces or closes it while it is registered.
    Ok(unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?)
}
