//! The cluster that tests get is a real one, and each function does what it says. Seen by another client: librdkafka.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod kafka {
    mod client;
    mod faults;
    mod groups;
    mod topics;
    mod users;
}
