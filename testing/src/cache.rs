//! What tests fetch or build, in a cache folder, once for all test processes.
//!
//! A sub folder is named by the hash of what it was made from, is made under another name and renamed when it is whole: what
//! an interrupted run leaves is never taken for the real thing.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// The cache folder, locked.
pub(crate) struct Cache {
    folder: PathBuf,
    _lock: File,
}

impl Cache {
    pub(crate) fn open() -> Result<Self> {
        let folder = folder()?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the cache folder {}", folder.display()))?;
        let lock = File::create(folder.join("lock")).context("cannot make the cache folder's lock")?;
        lock.lock().context("cannot lock the cache folder")?;
        Ok(Self { folder, _lock: lock })
    }

    /// The sub folder that is made of `source`, made now if it is not there.
    pub(crate) fn made(&self, name: &str, source: &[u8], make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        made(&self.folder, name, source, make)
    }
}

fn folder() -> Result<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("KEYLANE_CACHE")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("keylane")))
        .or_else(|| Some(named("HOME")?.join(".cache/keylane")))
        .context("no folder for what tests fetch: set KEYLANE_CACHE to one, or HOME")
}

fn made(cache: &Path, name: &str, source: &[u8], make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let hash = blake3::hash(source).to_hex();
    let place = cache.join(format!("{name}-{}", &hash[..16]));
    if !place.exists() {
        let new = tempfile::Builder::new().prefix("unfinished-").tempdir_in(cache)?;
        make(new.path())?;
        fs::rename(new.path(), &place).with_context(|| format!("cannot make {}", place.display()))?;
    }
    Ok(place)
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command, what: &str, remedy: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("cannot {what}: '{program}' is not here: {remedy}")
        }
        output => output.with_context(|| format!("cannot {what}: cannot run {program}"))?,
    };
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("cannot {what}: {program} failed; if it is too old, {remedy}\n{}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAVEN: &str = "install Maven (Debian: apt-get install maven)";

    #[test]
    fn what_is_missing_is_named_with_the_remedy() {
        let error = run(&mut Command::new("no-such-mvn"), "fetch Kafka's jars", MAVEN).unwrap_err().to_string();
        assert_eq!(error, format!("cannot fetch Kafka's jars: 'no-such-mvn' is not here: {MAVEN}"));
    }

    #[test]
    fn only_what_is_whole_is_kept_and_made_once() {
        let cache = tempfile::tempdir().unwrap();
        let interrupted = made(cache.path(), "thing", b"source", |new| {
            fs::write(new.join("half"), "")?;
            bail!("interrupted")
        });
        assert_eq!(interrupted.unwrap_err().to_string(), "interrupted");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);

        let place = made(cache.path(), "thing", b"source", |new| Ok(fs::write(new.join("whole"), "")?)).unwrap();
        assert!(place.join("whole").exists());
        assert_eq!(made(cache.path(), "thing", b"source", |_| bail!("made twice")).unwrap(), place);
        assert_ne!(made(cache.path(), "thing", b"another", |_| Ok(())).unwrap(), place);
    }
}
