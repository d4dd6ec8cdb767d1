//! A small disk for a server's data, that a test can fill: a file system in memory, mounted where only the server sees it.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{LIMIT, Programs};
use crate::{limit::Limit, process::Process};

/// Mounts, copies what is to lie there, says so, and keeps the mount for as long as it lives.
const HOLD: &str = r#"
set -e
data=$1 size=$2
cp -a "$data" "$data.seed"
mount -t tmpfs -o "size=${size}m,mode=700" keylane "$data"
chown --reference="$data.seed" "$data"
cp -a "$data.seed/." "$data/"
rm -rf "$data.seed"
echo ready
exec sleep infinity
"#;

/// The disk. Dropped, it is gone with all that is on it.
pub(super) struct Disk {
    holder: Process,
    data: PathBuf,
}

impl Disk {
    /// A disk of so many megabytes in the place of `data`, with what is there now.
    pub(super) fn hold(folder: &Path, data: &Path, megabytes: u32) -> Result<Self> {
        fs::create_dir(folder)?;
        let log = folder.join("log");
        let words = ["unshare", "--mount", "--propagation=private", "sh", "-c", HOLD, "sh"].map(Into::into);
        let size = megabytes.to_string().into();
        let words: Vec<_> = words.into_iter().chain([data.as_os_str().to_owned(), size]).collect();
        let holder = Process::start(folder, &log, &words)?;
        let limit = Limit::of(LIMIT);
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.ends_with("ready\n") {
                return Ok(Self { holder, data: data.to_owned() });
            }
            if holder.ended_within(Duration::ZERO)? {
                bail!(
                    "cannot mount a small disk for a test of full disks: {}\nrun the tests as root, where mounts are allowed \
                     (in a container: with CAP_SYS_ADMIN)",
                    said.trim()
                );
            }
            limit.nap(|| format!("a small disk; so far: {said}"))?;
        }
    }

    /// A command that runs where the disk is seen.
    pub(super) fn words(
        &self,
        programs: &Programs,
        program: &str,
        arguments: &[&std::ffi::OsStr],
    ) -> Vec<std::ffi::OsString> {
        let mount = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        let inside = ["nsenter".into(), mount.into()];
        inside.into_iter().chain(programs.words(program, arguments)).collect()
    }

    /// Writes to it until nothing fits any more.
    pub(super) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler())?;
        for size in [1 << 20, 4_096, 1] {
            let block = vec![b'x'; size];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("cannot fill the small disk"),
                }
            }
        }
        Ok(())
    }

    /// Gives the space back.
    pub(super) fn free(&self) -> Result<()> {
        fs::remove_file(self.filler()).context("the small disk was not filled")
    }

    fn filler(&self) -> PathBuf {
        let data = self.data.strip_prefix("/").expect("a temporary folder's path is whole");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(data).join("filler")
    }
}
