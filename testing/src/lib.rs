//! Real systems for tests. What a test proves against a stand-in, it proves of the stand-in.
//!
//! Only ever a dev-dependency; `tests/architecture.rs` holds that. What is missing on a machine makes a test fail and say
//! so: a test that is skipped proves nothing and looks green.

mod cache;
pub mod clients;
pub mod kafka;
mod limit;
mod ports;
pub mod postgres;
mod process;
pub mod tls;
