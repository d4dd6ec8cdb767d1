//! Where the files are made: a folder of our own on a disk that is named, with room for them.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    cli::bytes_text,
    exit::{Code, Failure},
};

/// A folder that is removed with all that is in it.
pub(super) struct Place {
    folder: tempfile::TempDir,
    /// What kind of file system it is on: `ext4`, `xfs`, ...
    pub(super) file_system: String,
}

impl Place {
    pub(super) fn make(parent: Option<&Path>) -> Result<Self, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let failed = |error: std::io::Error| {
            Failure::new(Code::Unavailable, format!("cannot make a folder in '{}'", parent.display()))
                .because(&error)
                .remedy("name another one with --folder")
        };
        let folder = tempfile::Builder::new().prefix("keylane-bench-").tempdir_in(&parent).map_err(failed)?;
        let path = folder.path().canonicalize().map_err(failed)?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let file_system = file_system_of(&mounts, &path).unwrap_or("unknown").to_owned();
        Ok(Self { folder, file_system })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether what is synced here survives a power cut.
    pub(super) fn is_disk(&self) -> bool {
        !matches!(self.file_system.as_str(), "tmpfs" | "ramfs")
    }

    /// A new folder in it, removed when it is dropped.
    pub(super) fn corner(&self) -> Result<Corner, Failure> {
        let made = tempfile::tempdir_in(self.path());
        made.map(Corner).map_err(|error| Failure::new(Code::Unavailable, "cannot make a folder").because(&error))
    }

    /// Refuses to begin what would fill the disk.
    pub(super) fn has_room(&self, bytes: u64) -> Result<(), Failure> {
        let failed = |error: rustix::io::Errno| {
            let what = format!("cannot ask how much room there is in '{}'", self.path().display());
            Failure::new(Code::Unavailable, what).because(&std::io::Error::from(error))
        };
        let found = rustix::fs::statvfs(self.path()).map_err(failed)?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free >= bytes {
            return Ok(());
        }
        let (needed, free) = (bytes_text(bytes), bytes_text(free >> 20 << 20));
        Err(Failure::new(Code::Unavailable, format!("the files need {needed}, and the disk has {free} free"))
            .remedy("name a folder on another disk with --folder, or use --quick"))
    }
}

/// One round's files.
pub(super) struct Corner(tempfile::TempDir);

impl Corner {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The type of the file system that is mounted nearest above the path.
fn file_system_of<'m>(mounts: &'m str, path: &Path) -> Option<&'m str> {
    let entry = |line: &'m str| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        path.starts_with(point).then_some((point.len(), right.split(' ').next()?))
    };
    // Of two at the same point the later one is on top.
    mounts.lines().filter_map(entry).max_by_key(|&(length, _)| length).map(|(_, kind)| kind)
}

/// What is going on, on standard error.
pub(super) struct Progress {
    silent: bool,
}

impl Progress {
    pub(super) fn new(silent: bool) -> Self {
        Self { silent }
    }

    pub(super) fn say(&self, text: &str) {
        if !self.silent {
            // Nobody reads it: no reason to stop.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_tells_the_file_system() {
        let mounts = "21 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
                      30 21 0:5 / /tmp rw - tmpfs tmpfs rw\n\
                      31 30 254:1 / /tmp/disk rw master:2 - xfs /dev/vdb rw\n";
        let on = |path| file_system_of(mounts, Path::new(path));
        assert_eq!([on("/home"), on("/tmp/x"), on("/tmp/disk/y")], [Some("ext4"), Some("tmpfs"), Some("xfs")]);
        assert_eq!(on("/tmpx"), Some("ext4"), "a path that only begins alike");
    }
}
