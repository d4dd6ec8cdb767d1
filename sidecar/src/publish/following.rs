//! One worker's snapshot for a process that hands it on, by the same reading as the sidecar's: what breaks the contract is
//! refused whole, and a silent worker holds nothing.
//!
//! Looking may take as long as the disk does, and locks nothing meanwhile: whoever asks is answered by what was seen before,
//! as it stands now.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    files::{self, Fault, Look},
    reading::Reading,
};
use crate::{clock::Now, snapshot::Snapshot};

/// The file, and what it said so far. Its clones share that.
#[derive(Clone, Debug)]
pub struct Following {
    file: PathBuf,
    reading: Arc<Mutex<Reading>>,
}

impl Following {
    /// Of the file that a worker writes.
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), reading: Arc::new(Mutex::new(Reading::new(None))) }
    }

    /// Looks once; blocks as long as the disk does.
    pub fn look(&self) {
        let snapshot = files::snapshot(&self.file);
        self.reading().take(Look { snapshot, metrics: Err(Fault::Missing), events: None });
    }

    /// What may be said now; `None` before the first good file.
    pub fn told(&self) -> Option<Snapshot> {
        self.reading().served(Now::read()).map(|(snapshot, _)| snapshot)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
