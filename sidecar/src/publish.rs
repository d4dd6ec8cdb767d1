//! The sidecar: serves one worker's snapshot, and can do nothing else.
//!
//! 1. It reads three files and answers requests. Before it answers anybody it gives up the right to connect anywhere, to
//!    write files, to start programs and to touch other processes ([`confine`]).
//! 2. What it serves keeps the contract: a file that does not is refused whole (`files`), and of what was said before it
//!    only tells what is still so (`silence`).
//! 3. A worker that is silent holds nothing as far as this tells: "unknown since", never an owner on old word.
//! 4. The worker knows nothing of it. They share files, and neither waits for the other.
//!
//! A process that hands a worker's snapshot on reads it by the same rules: [`Following`].

pub mod confine;
mod event_line;
mod files;
mod following;
mod gist;
mod metrics;
mod reading;
mod routes;
mod silence;
mod stream;

pub(crate) use files::{Fault, snapshot as snapshot_file};
pub use following::Following;
pub use gist::Gist;
pub use routes::{Settings, serve};
