//! Where the server's programs are, and as whom they run.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

/// Below it the test's SQL is not all known.
const OLDEST: u32 = 13;
/// Debian keeps a folder for each version here.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs of one version.
#[derive(Clone)]
pub(super) struct Programs {
    folder: PathBuf,
    /// For root, who must not run them: the user to become.
    user: Option<User>,
}

#[derive(Clone)]
pub(super) struct User {
    uid: u32,
    gid: u32,
}

impl Programs {
    pub(super) fn find() -> Result<Self> {
        let folder = newest_of_debian().or_else(in_path).with_context(|| {
            format!("no Postgres server from {OLDEST} on is here: install it (Debian: apt-get install postgresql)")
        })?;
        let user = if rustix::process::geteuid().is_root() { Some(User::find()?) } else { None };
        Ok(Self { folder, user })
    }

    /// A program of Postgres's and its arguments as words of a command, as the right user.
    pub(super) fn words(&self, program: &str, arguments: &[&OsStr]) -> Vec<OsString> {
        self.as_user(self.folder.join(program).as_os_str(), arguments)
    }

    /// Any program as that user.
    pub(super) fn as_user(&self, program: &OsStr, arguments: &[&OsStr]) -> Vec<OsString> {
        let become_user = self.user.iter().flat_map(|User { uid, gid }| {
            let ids = [format!("--reuid={uid}"), format!("--regid={gid}")];
            ["setpriv".to_owned()].into_iter().chain(ids).chain(["--clear-groups".to_owned()]).map(OsString::from)
        });
        let program = std::iter::once(program).chain(arguments.iter().copied()).map(OsString::from);
        become_user.chain(program).collect()
    }

    /// A command for one of Postgres's programs, as the right user.
    pub(super) fn command(&self, program: &str) -> Command {
        let words = self.words(program, &[]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Lets that user pass through a folder.
    pub(super) fn open_to_user(&self, folder: &Path) -> Result<()> {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).context("cannot open a temporary folder")
    }

    /// Makes a file or folder that user's own, and nobody else's.
    pub(super) fn give_to_user(&self, path: &Path) -> Result<()> {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        match &self.user {
            Some(User { uid, gid }) => {
                chown(path, Some(*uid), Some(*gid)).with_context(|| format!("cannot give away {}", path.display()))
            }
            None => Ok(()),
        }
    }
}

impl User {
    fn find() -> Result<Self> {
        let id = |flag: &str, user: &str| -> Option<u32> {
            let output = Command::new("id").args([flag, user]).output().ok()?;
            String::from_utf8_lossy(&output.stdout).trim().parse().ok()
        };
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|user| Some(Self { uid: id("-u", user)?, gid: id("-g", user)? }))
            .context("Postgres does not run as root, and there is no user 'postgres' or 'nobody'")
    }
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let whole = |version: &u32| *version >= OLDEST && folder_of(*version).join("initdb").exists();
    versions.filter(whole).max().map(folder_of)
}

fn folder_of(version: u32) -> PathBuf {
    Path::new(DEBIAN).join(version.to_string()).join("bin")
}

/// Elsewhere than on Debian they are in the path.
fn in_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}
