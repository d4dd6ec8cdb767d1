//! One SQLite file as the log.
