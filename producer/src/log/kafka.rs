//! Queues as Kafka topics: a queue is a topic, its partitions are the topic's.
//!
//! - `topics`: making and describing them
//! - `send`: appending; a receipt is the broker's word
//! - `read`: reading, without a group
//! - `checkpoints`: how far a source was brought in, in the transaction of the records
//!
//! 1. Partitions are explicit, `acks=all`, the producer idempotent: a broken connection doubles and reorders nothing.
//! 2. Reads see committed transactions only.
//! 3. **Kafka removes by its own rule:** retention by age or size takes records whether or not a group has finished
//!    them. Keep it longer than the longest time that workers may be away.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use self::{
    read::Reader,
    send::{Kind, Sender},
};
use crate::{
    enqueue::Receipt,
    error::{Detail, Error},
    kafka::{self, KafkaContext, KafkaSettings, codecs},
    log::{AppendError, Bounds, Checkpoint, Log, Page, QueueDescription, ReadLimit},
    partition::{Offset, Partition},
    queue::{GroupName, QueueIdentity, QueueName, QueueSpec},
    record::{Record, StoredRecord},
};

mod checkpoints;
mod read;
mod send;
mod topics;

/// How long a call may wait for the brokers. A broker's death takes less: its leaders move within 9 s by default.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the first contact may take, of which a person waits to hear why there is none.
const FIRST_CONTACT: Duration = Duration::from_secs(10);

/// One look at the cluster; between two, what the client heard meanwhile is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The largest batch that brokers take by default (`max.message.bytes`), so that whatever can be read can be written
/// again.
const LARGEST_BATCH: usize = 1_048_588;

/// A connection to a cluster.
pub struct KafkaLog {
    settings: KafkaSettings,
    /// For questions.
    asking: Sender,
    /// For jobs, once there are any.
    sender: Option<Sender>,
    /// For imports, with the source that it sends for: one transactional id belongs to one of them.
    importer: Option<(Box<str>, Sender)>,
    reader: Option<Reader>,
    cluster: Box<str>,
}

impl KafkaLog {
    /// Connects, and learns which cluster it is.
    ///
    /// # Errors
    /// [`Error::Refused`] if the broker refuses user or password, or its certificate is not trusted;
    /// [`Error::Unavailable`] if no broker answers in time; [`Error::Invalid`] if a property does not fit.
    pub fn open(settings: KafkaSettings) -> Result<Self, Error> {
        codecs::check()?;
        let asking = Sender::open(&settings, Kind::Asking)?;
        let cluster = asking.ask_for(FIRST_CONTACT, "cannot reach Kafka", |client| {
            // It tells no reason; the client hears one.
            client.fetch_cluster_id(LOOK).ok_or(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut))
        })?;
        Ok(Self { settings, asking, sender: None, importer: None, reader: None, cluster: cluster.into() })
    }

    /// Deletes a queue with all that is on it, and a group's word about it. No other command does.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it is not there; [`Error::Refused`], [`Error::Unavailable`] as the brokers answer.
    pub fn delete(&mut self, queue: &QueueName, group: &GroupName) -> Result<(), Error> {
        topics::delete(&self.asking, &self.settings, queue, group)
    }

    fn reader(&mut self) -> Result<&mut Reader, Error> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(&self.settings)?,
        };
        Ok(self.reader.insert(reader))
    }

    /// The sender of a source's transactions.
    fn importer(&mut self, queue: &QueueIdentity, source: &str) -> Result<&mut Sender, Error> {
        let id = format!("keylane-import {} {} {source}", queue.name, queue.incarnation.0);
        let sender = match self.importer.take() {
            Some((known, sender)) if *known == *id => sender,
            _ => Sender::open(&self.settings, Kind::Transactional(&id))?,
        };
        Ok(&mut self.importer.insert((id.into(), sender)).1)
    }
}

impl Log for KafkaLog {
    fn create(&mut self, spec: &QueueSpec) -> Result<QueueIdentity, Error> {
        topics::create(&self.asking, &self.settings, &self.cluster, spec)
    }

    fn describe(&mut self, queue: &QueueName) -> Result<QueueDescription, Error> {
        topics::describe(&self.asking, &self.settings, &self.cluster, queue)
    }

    fn identity(&mut self, queue: &QueueName) -> Result<QueueIdentity, Error> {
        let found = topics::identity(&self.asking, &self.cluster, queue)?;
        found.map_or_else(|| Err(crate::queue::not_there(queue, &topics::queues(&self.asking)?)), Ok)
    }

    fn queues(&mut self) -> Result<Vec<QueueName>, Error> {
        topics::queues(&self.asking)
    }

    fn append(
        &mut self,
        queue: &QueueIdentity,
        records: Vec<(Partition, Record)>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<Receipt>, AppendError> {
        let absent = |cause| AppendError { sent: vec![None; records.len()], rest_is_absent: true, cause };
        if let Some(cause) = records.iter().find_map(|(p, record)| refusal(queue, *p, record)) {
            return Err(absent(cause));
        }
        let Some(checkpoint) = checkpoint else {
            let sender = match self.sender.take() {
                Some(sender) => sender,
                None => Sender::open(&self.settings, Kind::Idempotent).map_err(absent)?,
            };
            let answer = sender.send(queue, &records);
            // One that cannot go on is not used again.
            self.sender = sender.context().fatal().is_none().then_some(sender);
            return answer;
        };
        topics::create_checkpoints(&self.asking, &self.settings).map_err(absent)?;
        let sender = self.importer(queue, &checkpoint.source).map_err(|cause| AppendError {
            sent: vec![None; records.len()],
            rest_is_absent: true,
            cause,
        })?;
        let answer = sender.send_in_transaction(queue, &records, checkpoints::record(queue, checkpoint));
        if answer.is_err() {
            // Whatever state its transaction is in: the next one begins by ending it.
            self.importer = None;
        }
        answer
    }

    fn checkpoint(&mut self, queue: &QueueIdentity, source: &str) -> Result<Option<Checkpoint>, Error> {
        // Not "is it there?": a broker that has not heard of it yet would say no, and a whole source would be sent once more.
        topics::create_checkpoints(&self.asking, &self.settings)?;
        checkpoints::last(self.reader()?, queue, source)
    }

    fn read(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        limit: ReadLimit,
    ) -> Result<Page, Error> {
        check_partition(queue, partition)?;
        self.reader()?.read(queue.name.as_str(), partition, from, limit)
    }

    fn read_at(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        offsets: &[Offset],
    ) -> Result<Vec<StoredRecord>, Error> {
        check_partition(queue, partition)?;
        self.reader()?.read_at(queue.name.as_str(), partition, offsets)
    }

    fn bounds(&mut self, queue: &QueueIdentity, partition: Partition) -> Result<Bounds, Error> {
        check_partition(queue, partition)?;
        self.reader()?.bounds(queue.name.as_str(), partition)
    }
}

fn refusal(queue: &QueueIdentity, partition: Partition, record: &Record) -> Option<Error> {
    if let Err(error) = check_partition(queue, partition) {
        return Some(error);
    }
    let size = size_alone(record);
    (size > LARGEST_BATCH).then(|| {
        Error::Invalid(
            Detail::new(format!("a record of {size} bytes is too large: Kafka takes up to {LARGEST_BATCH}"))
                .remedy("send a smaller payload, or a reference to it"),
        )
    })
}

/// Bytes of a batch with this record alone, as the broker counts them: format 2, not compressed.
fn size_alone(record: &Record) -> usize {
    const BATCH: usize = 61;
    /// Attributes, and the differences of time and offset to the batch's, which are zero.
    const FIXED: usize = 3;
    let bytes = |bytes: Option<&[u8]>| match bytes {
        // Minus one.
        None => 1,
        Some(bytes) => varint(bytes.len()) + bytes.len(),
    };
    let header = |(name, value): &(bytes::Bytes, Option<bytes::Bytes>)| bytes(Some(name)) + bytes(value.as_deref());
    let headers = varint(record.headers.len()) + record.headers.iter().map(header).sum::<usize>();
    let body = FIXED + bytes(record.key.as_deref()) + bytes(record.value.as_deref()) + headers;
    BATCH + varint(body) + body
}

/// Bytes of a number in seven bits each, with one bit for its sign.
fn varint(number: usize) -> usize {
    let bits = (usize::BITS - number.leading_zeros() + 1) as usize;
    bits.div_ceil(7)
}

fn check_partition(queue: &QueueIdentity, partition: Partition) -> Result<(), Error> {
    if partition.0 < queue.partitions.0.get() {
        return Ok(());
    }
    let (name, last) = (&queue.name, queue.partitions.0.get() - 1);
    Err(Error::Invalid(Detail::new(format!("partition {partition} is not in queue '{name}': 0 to {last}"))))
}

/// The name of a topic's partition as Kafka numbers it.
fn number(partition: Partition) -> i32 {
    // At most 4,096 of them.
    partition.0.cast_signed()
}

/// Asks until there is an answer, up to a limit. A refusal that the client hears meanwhile ends that at once: to the
/// call itself it would be a time-out.
fn patiently<T>(
    limit: Duration,
    context: &KafkaContext,
    what: &str,
    serve: impl Fn(),
    mut ask: impl FnMut() -> Result<T, KafkaError>,
) -> Result<T, Error> {
    let started = kafka::now();
    loop {
        let error = match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        serve();
        let explained = context.explain(what, &error);
        if !explained.is_transient() || started.elapsed() >= limit {
            return Err(explained);
        }
    }
}
