//! Kafka's jars and the compiled side tool, brought to a cache folder once for all test processes.
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

const POM: &str = include_str!("../../kafka/pom.xml");

/// The side tool's sources, by file name.
const TOOL: [(&str, &str); 7] = [
    ("Brokers.java", include_str!("../../kafka/Brokers.java")),
    ("Groups.java", include_str!("../../kafka/Groups.java")),
    ("Records.java", include_str!("../../kafka/Records.java")),
    ("Storage.java", include_str!("../../kafka/Storage.java")),
    ("Tool.java", include_str!("../../kafka/Tool.java")),
    ("Topics.java", include_str!("../../kafka/Topics.java")),
    ("Users.java", include_str!("../../kafka/Users.java")),
];

const MAVEN: &str = "install Maven (Debian: apt-get install maven)";
const JAVA: &str = "install a JDK, 17 or later (Debian: apt-get install default-jdk-headless)";

/// The class path with Kafka and the side tool.
pub(super) fn class_path() -> Result<String> {
    let cache = folder()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make the cache folder {}", cache.display()))?;
    let lock = File::create(cache.join("lock")).context("cannot make the cache folder's lock")?;
    lock.lock().context("cannot lock the cache folder")?;

    let jars = made(&cache, "kafka", POM.as_bytes(), fetch)?.join("*").display().to_string();
    let mut sources = POM.to_owned();
    sources.extend(TOOL.iter().flat_map(|(name, text)| [*name, *text]));
    let classes = made(&cache, "kafka-tool", sources.as_bytes(), |new| compile(new, &jars))?;
    Ok(format!("{}:{jars}", classes.display()))
}

fn folder() -> Result<PathBuf> {
    let named = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("KEYLANE_CACHE")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("keylane")))
        .or_else(|| Some(named("HOME")?.join(".cache/keylane")))
        .context("no folder for Kafka's jars: set KEYLANE_CACHE to one, or HOME")
}

/// The sub folder that is made of `source`, made now if it is not there.
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

fn fetch(new: &Path) -> Result<()> {
    let project = tempfile::tempdir()?;
    fs::write(project.path().join("pom.xml"), POM)?;
    let mut mvn = Command::new("mvn");
    mvn.args(["-q", "-B", "dependency:copy-dependencies"]).arg(format!("-DoutputDirectory={}", new.display()));
    run(mvn.current_dir(project.path()), "fetch Kafka's jars", MAVEN)?;
    if fs::read_dir(new)?.next().is_none() {
        bail!("cannot fetch Kafka's jars: mvn succeeded and brought none");
    }
    Ok(())
}

fn compile(new: &Path, jars: &str) -> Result<()> {
    let sources = tempfile::tempdir()?;
    for (name, text) in TOOL {
        fs::write(sources.path().join(name), text)?;
    }
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-nowarn", "-cp", jars, "-d"]).arg(new).args(TOOL.map(|(name, _)| name));
    run(javac.current_dir(sources.path()), "compile the tests' Kafka tool", JAVA)
}

fn run(command: &mut Command, what: &str, remedy: &str) -> Result<()> {
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
