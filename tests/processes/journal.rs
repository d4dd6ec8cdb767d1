//! What handlers wrote down while they ran, and whether one key ran in two processes at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// A handler that writes when it begins and ends each job, one line in one write, and answers with its worker's name.
pub(crate) const HANDLER: &str = r#"
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    offset=${line#*\"offset\":}; offset=${offset%%,*}
    echo "begin $key $offset $1" >> journal
    [ -z "$WORK" ] || /bin/sleep "$WORK"
    echo "end $key $offset $1" >> journal
    echo "{\"outcome\":\"done\",\"result\":{\"worker\":\"$1\"}}"
done"#;

/// How such a handler says that a job is done.
pub(crate) const ANSWER: &str = r#"echo "{\"outcome\":\"done\",\"result\":{\"worker\":\"$1\"}}""#;

/// How many runs a worker began.
pub(crate) fn begun(path: &Path, worker: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("begin ") && line.ends_with(&format!(" {worker}"))).count()
}

/// Two runs of one key at one time in processes that nobody stopped.
pub(crate) fn overlap(path: &Path, stopped: &BTreeSet<String>) -> Result<(), String> {
    find_overlap(&std::fs::read_to_string(path).unwrap_or_default(), stopped)
}

pub(crate) fn find_overlap(journal: &str, stopped: &BTreeSet<String>) -> Result<(), String> {
    // A run without an end was killed: nothing can be said about it.
    let mut running: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut during: Vec<(&str, &str, &str, &str, &str)> = Vec::new();
    for line in journal.lines() {
        let mut words = line.split(' ');
        let (Some(what), Some(key), Some(offset), Some(worker)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("a line of the journal is torn: {line}"));
        };
        let runs = running.entry(key).or_default();
        if what == "begin" {
            during.extend(runs.iter().map(|&(of, at)| (key, of, at, worker, offset)));
            runs.push((worker, offset));
        } else {
            runs.retain(|&run| run != (worker, offset));
            let seen = during.iter().find(|d| (d.0, d.1, d.2) == (key, worker, offset));
            if let Some(&(_, _, _, other, at)) = seen
                && !stopped.contains(worker)
                && !stopped.contains(other)
            {
                return Err(format!(
                    "key {key} ran in {worker} (offset {offset}) and in {other} (offset {at}) at once"
                ));
            }
        }
    }
    Ok(())
}
