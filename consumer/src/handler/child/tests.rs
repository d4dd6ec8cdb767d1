//! With real processes. Handlers are written in `sh`; workers and guards that are killed are this test binary again,
//! started in a role.

mod fixture;
mod life;
mod protocol;
