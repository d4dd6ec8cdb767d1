//! A clock that is wrong, for one server: libfaketime before its processes, by a file that a test changes while they run.

use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};

/// Debian has a folder for each kind of processor here.
const LIBRARIES: &str = "/usr/lib";

/// So many days ahead, or behind. Its monotonic clock is right, as a machine's is whose date somebody set wrong.
#[derive(Clone, Debug)]
pub struct WrongClock {
    library: PathBuf,
    folder: Arc<tempfile::TempDir>,
}

impl WrongClock {
    /// Negative: behind.
    pub fn days(days: i32) -> Result<Self> {
        let library = library().context("no libfaketime is here: install it (Debian: apt-get install faketime)")?;
        let folder = tempfile::Builder::new().prefix("keylane-clock-").tempdir()?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let clock = Self { library, folder: Arc::new(folder) };
        clock.jump_to(days)?;
        Ok(clock)
    }

    /// From now on it is so many days ahead.
    pub fn jump_to(&self, days: i32) -> Result<()> {
        let whole = self.folder.path().join("next");
        fs::write(&whole, format!("{days:+}d\n"))?;
        fs::set_permissions(&whole, fs::Permissions::from_mode(0o644))?;
        fs::rename(&whole, self.file()).context("cannot change the clock")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// Before a command: it runs by this clock.
    pub(super) fn words(&self) -> [OsString; 5] {
        let set = |name: &str, value: OsString| {
            let mut word = OsString::from(name);
            word.push(value);
            word
        };
        [
            "env".into(),
            set("LD_PRELOAD=", self.library.clone().into()),
            set("FAKETIME_TIMESTAMP_FILE=", self.file().into()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        ]
    }
}

fn library() -> Option<PathBuf> {
    let kinds = fs::read_dir(LIBRARIES).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = |kind: PathBuf| kind.join("faketime/libfaketime.so.1");
    kinds.map(file).find(|file| file.exists())
}
