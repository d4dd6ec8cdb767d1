//! A group of one member that has all records in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use keylane_consumer::{
    Error, Generation,
    fence::MemberId,
    group::{Assignment, Commit, CommitError, Group, GroupControl, GroupEvent},
};
use keylane_producer::{Offset, Partition, StoredRecord};

/// Records in one event, as the embedded group has it.
const PAGE: usize = 512;
/// Events that one poll may deliver.
const PAGES: usize = 8;

pub(super) struct InMemory {
    records: BTreeMap<Partition, Vec<StoredRecord>>,
    /// Where each partition that was resumed is read on.
    resumed: BTreeMap<Partition, Offset>,
    assigned: bool,
    commands: Receiver<Command>,
    control: Arc<Control>,
}

/// What other threads asked for. As many as there are pauses and resumes: few, since each is for a whole partition.
enum Command {
    Resume(Partition, Offset),
    Pause(Partition),
    Leave,
}

struct Control {
    commands: Sender<Command>,
    committed: Mutex<HashMap<Partition, Offset>>,
}

impl InMemory {
    /// Offsets count from 0 in each partition, without gaps.
    pub(super) fn holding(records: BTreeMap<Partition, Vec<StoredRecord>>) -> Self {
        let (commands, theirs) = unbounded();
        let control = Arc::new(Control { commands, committed: Mutex::default() });
        Self { records, resumed: BTreeMap::new(), assigned: false, commands: theirs, control }
    }

    fn carry_out(&mut self, command: &Command, sink: &mut dyn FnMut(GroupEvent)) {
        match command {
            &Command::Resume(partition, from) => drop(self.resumed.insert(partition, from)),
            Command::Pause(partition) => drop(self.resumed.remove(partition)),
            Command::Leave => sink(GroupEvent::Left),
        }
    }

    fn deliver(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> bool {
        let mut pages = 0;
        for (&partition, next) in &mut self.resumed {
            let records = &self.records[&partition];
            let from = usize::try_from(next.0).expect("it is in memory");
            let page = &records[from..records.len().min(from + PAGE)];
            if page.is_empty() {
                continue;
            }
            let begin = std::mem::replace(next, Offset(next.0 + page.len() as u64));
            let (records, end) = (page.to_vec(), Offset(records.len() as u64));
            sink(GroupEvent::Records { partition, from: begin, records, position: *next, end });
            pages += 1;
            if pages == PAGES {
                break;
            }
        }
        pages > 0
    }
}

impl Group for InMemory {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        if !std::mem::replace(&mut self.assigned, true) {
            sink(GroupEvent::Assigned(Assignment {
                member: MemberId::new("bench").expect("it is not empty"),
                generation: Generation::new(1).expect("it is not 0"),
                partitions: self.records.keys().copied().collect(),
                replaces_all: true,
            }));
            return Ok(());
        }
        while let Ok(command) = self.commands.try_recv() {
            self.carry_out(&command, sink);
        }
        if !self.deliver(sink)
            && let Ok(command) = self.commands.recv_timeout(limit)
        {
            self.carry_out(&command, sink);
        }
        Ok(())
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::clone(&self.control) as Arc<dyn GroupControl>
    }
}

impl Control {
    fn send(&self, command: Command) {
        let _ = self.commands.send(command); // the member is gone
    }
}

impl GroupControl for Control {
    fn resume(&self, partition: Partition, from: Offset) {
        self.send(Command::Resume(partition, from));
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.send(Command::Resume(partition, from));
    }

    fn pause(&self, partition: Partition) {
        self.send(Command::Pause(partition));
    }

    fn release(&self, _: &[Partition]) {}

    fn rejoin(&self) {}

    fn leave(&self) {
        self.send(Command::Leave);
    }

    fn commit(&self, commit: &Commit, _: Duration) -> Result<(), CommitError> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner).extend(commit.offsets.iter().copied());
        Ok(())
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(partitions.iter().map(|p| (*p, committed.get(p).copied())).collect())
    }
}
