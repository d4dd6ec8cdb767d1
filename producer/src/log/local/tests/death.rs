//! A process that is killed while it appends loses nothing it had a receipt for, and tears no batch.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use super::{
    children::{BATCH, Child, batch, says},
    *,
};

/// Starts the child, kills it at a random moment, and gives what it said.
fn kill_at_random(part: Child, files: &Files, first: usize) -> Vec<String> {
    let random = RandomState::new().build_hasher().finish();
    let mut child = part.start(&files.path(), first);
    let mut lines = says(child.stdout.take().unwrap());
    let receipts = usize::try_from(random % 12).unwrap();
    let mut said: Vec<String> = lines.by_ref().take(receipts).collect();
    // Somewhere within the batch that is under way.
    (0..(random >> 8) % 200_000).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    said.extend(lines);
    said
}

/// How many records of each batch are there.
fn batches(log: &mut LocalLog, queue: &QueueIdentity) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for partition in queue.partitions.all() {
        for stored in read_all(log, queue, partition) {
            let value = String::from_utf8(stored.record.value.unwrap().to_vec()).unwrap();
            let number = value.split('/').next().unwrap().parse().unwrap();
            *found.entry(number).or_insert(0) += 1;
        }
    }
    found
}

fn check_receipts(log: &mut LocalLog, queue: &QueueIdentity, said: &[String]) {
    for line in said {
        let (number, receipts) = line.split_once(": ").unwrap();
        let sent = batch(number.parse().unwrap());
        let receipts: Vec<&str> = receipts.split(' ').collect();
        assert_eq!(receipts.len(), BATCH, "receipts of batch {number}");
        for (receipt, (partition, record)) in receipts.iter().zip(sent) {
            let offset = Offset(receipt.split_once('@').unwrap().1.parse().unwrap());
            assert_eq!(*receipt, format!("{partition}@{offset}"));
            let found = log.read_at(queue, partition, &[offset]).unwrap();
            assert_eq!(found.first().map(|f| &f.record), Some(&record), "record of receipt {receipt}, batch {number}");
        }
    }
}

#[test]
fn a_killed_process_loses_no_receipt_and_tears_no_batch() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 3, seven_days());
    // No connection stays open: the next one has to recover by itself.
    drop(log);
    let mut receipts = 0;
    for round in 0..30 {
        let said = kill_at_random(Child::AppendBatches, &files, round * 1_000_000);
        receipts += said.len();
        let mut log = files.log();
        check_receipts(&mut log, &queue, &said);
        for (number, records) in batches(&mut log, &queue) {
            assert_eq!(records, BATCH, "batch {number} is torn, round {round}");
        }
    }
    assert!(receipts > 30, "the children came to append: {receipts} receipts");
}

/// The twin: without one transaction around a batch, the same killing tears one.
#[test]
fn without_the_transaction_a_kill_tears_a_batch() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 3, seven_days());
    let torn = (0..100).any(|round| {
        kill_at_random(Child::AppendLoosely, &files, round * 1_000_000);
        batches(&mut log, &queue).values().any(|&records| records != BATCH)
    });
    assert!(torn, "100 kills tore nothing: the other test could not fail either");
}
