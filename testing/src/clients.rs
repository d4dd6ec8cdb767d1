//! Other languages' clients for Postgres, as the examples name them, fetched by these languages' own tools into the cache.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::cache::{Cache, run};

const REQUIREMENTS: &str = include_str!("../../examples/postgres/python/requirements.txt");
const PACKAGE: &str = include_str!("../../examples/postgres/javascript/package.json");

const PYTHON: &str = "install Python 3 with pip (Debian: apt-get install python3-pip)";
const NODE: &str = "install Node.js with npm (Debian: apt-get install npm)";

/// The folder with psycopg, for `PYTHONPATH`.
pub fn psycopg() -> Result<PathBuf> {
    let version = Command::new("python3").arg("--version").output().context(PYTHON)?;
    let source = [&version.stdout, REQUIREMENTS.as_bytes()].concat();
    Cache::open()?.made("psycopg", &source, |new| {
        let requirements = tempfile::NamedTempFile::new()?;
        fs::write(requirements.path(), REQUIREMENTS)?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(new);
        run(pip.arg("--requirement").arg(requirements.path()), "fetch psycopg", PYTHON)
    })
}

/// The folder with node-postgres, for `NODE_PATH`.
pub fn node_postgres() -> Result<PathBuf> {
    let made = Cache::open()?.made("node-postgres", PACKAGE.as_bytes(), |new| {
        fs::write(new.join("package.json"), PACKAGE)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(new);
        run(&mut npm, "fetch node-postgres", NODE)
    })?;
    Ok(made.join("node_modules"))
}
