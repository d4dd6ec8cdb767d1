//! `keylane hot`: the keys with the most jobs waiting, or that take the most time, as the owners of their partitions told the store.

use keylane_consumer::store::HotKey;
use serde::Serialize;

use super::status::picture::Eye;
use crate::{
    cli::{Global, HotArgs, HotBy},
    exit::{Code, Failure},
    output::{Output, Table, grouped},
    time,
};

/// A key, as `-o json` shows it.
#[derive(Serialize)]
struct Shown<'a> {
    /// As `keylane why` takes it.
    key: &'a str,
    partition: u32,
    waiting: u64,
    spent_ms: u64,
    told_at: String,
}

pub(crate) fn run(args: &HotArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let picture = Eye::open(global)?.look()?;
    let keys = |(partition, read): &(keylane_producer::Partition, keylane_consumer::store::NoteRead)| {
        let (partition, told_at) = (partition.0, time::rfc3339(read.at));
        let shown = |key: &HotKey| (key.clone(), partition, told_at.clone());
        read.note.hot.iter().map(shown).collect::<Vec<_>>()
    };
    let mut hot: Vec<_> = picture.notes.iter().flat_map(keys).collect();
    hot.sort_by_key(|(key, ..)| {
        std::cmp::Reverse(match args.by {
            HotBy::Waiting => (key.waiting, key.spent_ms),
            HotBy::Time => (key.spent_ms, key.waiting),
        })
    });
    hot.truncate(args.limit);
    let mut table = Table::new(&["KEY", "PART", "WAITING", "TIME"]);
    for (HotKey { key, waiting, spent_ms }, partition, told_at) in &hot {
        if output.is_json() {
            let (waiting, spent_ms, told_at) = (*waiting, *spent_ms, told_at.clone());
            output.json(&Shown { key, partition: *partition, waiting, spent_ms, told_at })?;
        } else {
            let spent = time::short(std::time::Duration::from_millis(*spent_ms));
            table.row(&[key, partition, &grouped(*waiting), &spent]);
        }
    }
    match (output.is_json(), hot.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            output.line("no key is hot: no worker tells of one with 10 jobs waiting, or 1 s of work of late")
        }
        (false, false) => output.table(&table),
    }?;
    Ok(Code::Done)
}
