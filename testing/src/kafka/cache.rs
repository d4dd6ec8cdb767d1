//! Kafka's jars and the compiled side tool, brought to the cache folder once for all test processes.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use crate::cache::{Cache, run};

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
    let cache = Cache::open()?;
    let jars = cache.made("kafka", POM.as_bytes(), fetch)?.join("*").display().to_string();
    let mut sources = POM.to_owned();
    sources.extend(TOOL.iter().flat_map(|(name, text)| [*name, *text]));
    let classes = cache.made("kafka-tool", sources.as_bytes(), |new| compile(new, &jars))?;
    Ok(format!("{}:{jars}", classes.display()))
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
