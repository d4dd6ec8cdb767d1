//! The files between a worker and whoever watches it: the snapshot, beside it what the worker counts, and its latest events.
//!
//! 1. A file is whole at every moment: it is written under another name and renamed.
//! 2. Nothing that already lies there is written into, followed or waited for: a pipe or a link in the way is replaced.
//! 3. Only owner and group may read them.
//! 4. They are a view, not a record: not flushed to the disk, and worth nothing after a restart of the machine, which the
//!    stamp of the machine's own clock shows.
//! 5. What an earlier process wrote is not this one's word: it is taken away before there is a new one.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::snapshot::{Snapshot, Word};

/// The value of [`Spooled::schema`].
pub const SCHEMA: Word = "keylane.snapshot-file/v1";

const MODE: u32 = 0o640;

/// What the snapshot's file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spooled {
    /// Always [`SCHEMA`].
    #[serde(deserialize_with = "schema")]
    pub schema: Word,
    /// When it was written, in milliseconds since the machine started, sleep included: whoever shares the machine can tell
    /// its age without a wall clock.
    pub written_boot_ms: u64,
    /// For whoever asks whether it is well: `keylane health`.
    pub health: Health,
    /// What the worker says.
    pub snapshot: Snapshot,
}

/// How the worker's loop stands, in milliseconds since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// When its loop last turned. The file is written by another thread, which goes on if the loop stands.
    pub turned_boot_ms: u64,
    /// Since when partitions come or go, or its membership does.
    pub rebalancing_since_boot_ms: Option<u64>,
    /// Since when every partition that has work stands still though nothing that the worker knows of holds it up.
    pub stuck_since_boot_ms: Option<u64>,
}

/// What is to be written at one moment.
#[derive(Clone, Debug)]
pub struct Edition {
    /// A [`Spooled`].
    pub snapshot: Vec<u8>,
    /// A [`Counted`](crate::metrics::counted::Counted).
    pub metrics: Vec<u8>,
    /// The latest events, one JSON object a line; `None`: as they were.
    pub events: Option<Vec<u8>>,
}

/// Where a worker writes.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    snapshot: PathBuf,
    metrics: PathBuf,
    events: PathBuf,
}

impl SnapshotFile {
    /// The snapshot goes to this file, the others beside it.
    pub fn new(path: &Path) -> Self {
        Self { snapshot: path.to_owned(), metrics: metrics_beside(path), events: events_beside(path) }
    }

    /// Takes away the snapshot and the counts of an earlier process. Its events stay, for whoever asks what happened.
    ///
    /// # Errors
    /// What the file system said. Both are tried.
    pub fn begin(&self) -> io::Result<()> {
        let snapshot = take_away(&self.snapshot);
        take_away(&self.metrics).and(snapshot)
    }

    /// Replaces the files.
    ///
    /// # Errors
    /// What the file system said. All are tried.
    pub fn put(&self, edition: &Edition) -> io::Result<()> {
        let events = edition.events.as_ref().map_or(Ok(()), |events| replace(&self.events, events));
        let metrics = replace(&self.metrics, &edition.metrics);
        replace(&self.snapshot, &edition.snapshot).and(metrics).and(events)
    }
}

/// `snapshot.json` has the worker's counts in `snapshot.metrics.json`.
pub fn metrics_beside(snapshot: &Path) -> PathBuf {
    snapshot.with_extension("metrics.json")
}

/// `snapshot.json` has its events in `snapshot.events.ndjson`.
pub fn events_beside(snapshot: &Path) -> PathBuf {
    snapshot.with_extension("events.ndjson")
}

/// Puts these bytes in the place of what lies there: written under another name (`.new`) and renamed.
///
/// # Errors
/// What the file system said; then what lay there still does.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // Of a writer that was killed, or anything else that must not be opened.
    take_away(&new)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
    // Whatever the umask says, the sidecar's group can read it.
    let written = file.set_permissions(Permissions::from_mode(MODE)).and_then(|()| file.write_all(bytes));
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new); // a full disk gets its space back
    }
    renamed
}

fn take_away(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn schema<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let said = String::deserialize(from)?;
    if said == SCHEMA { Ok(SCHEMA) } else { Err(D::Error::custom("not a snapshot file of this version")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    fn edition(text: &str) -> Edition {
        Edition { snapshot: text.into(), metrics: text.into(), events: Some(format!("{text}\n").into()) }
    }

    #[test]
    fn a_file_is_replaced_whole_and_only_owner_and_group_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        let file = SnapshotFile::new(&path);
        file.put(&edition("one, and longer")).unwrap();
        let reader = fs::File::open(&path).unwrap();
        file.put(&edition("two")).unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "one, and longer", "whoever reads keeps what it opened");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_to_string(folder.path().join("snapshot.events.ndjson")).unwrap(), "two\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_to_string(folder.path().join("snapshot.metrics.json")).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
        file.begin().unwrap();
        assert!(!path.exists() && !folder.path().join("snapshot.metrics.json").exists(), "of another process");
        file.begin().unwrap();
    }

    /// Opened for writing, a pipe that nobody reads would hold the writer for ever.
    #[test]
    fn a_pipe_or_a_link_in_the_way_is_replaced_and_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("snapshot.json"), folder.path().join("elsewhere"));
        for in_the_way in ["snapshot.json", "snapshot.json.new"] {
            let status = std::process::Command::new("mkfifo").arg(folder.path().join(in_the_way)).status().unwrap();
            assert!(status.success());
        }
        SnapshotFile::new(&path).put(&edition("one")).unwrap();
        assert!(!fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        fs::write(&elsewhere, "mine").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("snapshot.json.new")).unwrap();
        SnapshotFile::new(&path).put(&edition("two")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error_and_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(&folder.path().join("gone/snapshot.json"));
        assert_eq!(file.put(&edition("one")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
