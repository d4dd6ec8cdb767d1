use super::{LocalLog, Open};
use crate::{
    log::{Log, conformance::Broker},
    sqlite::Patience,
};
use tempfile::TempDir;

/// A queue file in a folder of its own, gone with it.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("queue.db")
    }

    fn log(&self) -> LocalLog {
        LocalLog::open(&self.path(), Open::Create, Patience::Patient).unwrap()
    }
}

impl Broker for Files {
    fn open(&self) -> Box<dyn Log> {
        Box::new(self.log())
    }
}

crate::log_conformance!(Files::new());
