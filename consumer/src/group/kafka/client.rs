//! One librdkafka consumer, and what its bindings tell that rust-rdkafka 0.39 does not: the generation, where a partition
//! ends, names that are not UTF-8, and a commit that waits no longer than it is told.
//!
//! Nothing is decided here.

use std::{
    ffi::{CStr, CString},
    mem::ManuallyDrop,
    ptr,
    time::Duration,
};

use keylane_producer::{
    Offset, Partition, StoredRecord,
    kafka::{
        KafkaContext, message,
        rdkafka::{
            ClientContext, TopicPartitionList, bindings as native,
            config::{ClientConfig, RDKafkaLogLevel},
            consumer::{BaseConsumer, Consumer},
            error::{KafkaError, KafkaResult, RDKafkaErrorCode},
            groups::GroupList,
            types::{RDKafka, RDKafkaRespErr},
        },
        token,
    },
};

use crate::fence::{Generation, MemberId};

/// A destroyed client may wait for brokers that are gone; who ends does not wait longer than this.
const GOODBYE: Duration = Duration::from_secs(5);

/// What the client has to tell.
#[derive(Debug)]
pub(super) enum Event {
    /// A record of a partition.
    Record(Partition, StoredRecord),
    /// All below this offset was told or does not exist, and there is nothing above it yet.
    End(Partition, Offset),
    /// The group gave these; the answer is [`Client::take`].
    Assign(Vec<Partition>),
    /// The group wants these back; the answer is [`Client::give_back`].
    Revoke(Vec<Partition>),
    /// Something failed; the context has heard it.
    Error(RDKafkaErrorCode, Option<Partition>, String),
    /// Nothing that matters to the group.
    Other,
}

/// A client on one topic.
pub(super) struct Client {
    consumer: ManuallyDrop<BaseConsumer<KafkaContext>>,
    queue: Queue,
    topic: Box<str>,
    topic_name: CString,
    /// It gets its assignment in steps, rather than as a whole each time.
    cooperative: bool,
}

impl Client {
    pub(super) fn open(
        config: &ClientConfig,
        context: KafkaContext,
        topic: &str,
        cooperative: bool,
    ) -> KafkaResult<Self> {
        let consumer: BaseConsumer<KafkaContext> = config.create_with_context(context)?;
        let queue = Queue::of_consumer(consumer.client().native_ptr());
        let consumer = ManuallyDrop::new(consumer);
        Ok(Self { queue, consumer, topic: topic.into(), topic_name: CString::new(topic)?, cooperative })
    }

    pub(super) fn context(&self) -> &KafkaContext {
        self.consumer.client().context()
    }

    fn native(&self) -> *mut RDKafka {
        self.consumer.client().native_ptr()
    }

    pub(super) fn subscribe(&self) -> KafkaResult<()> {
        self.consumer.subscribe(&[&self.topic])
    }

    pub(super) fn unsubscribe(&self) {
        self.consumer.unsubscribe();
    }

    /// Begins to leave the group; done when [`Client::is_closed`].
    pub(super) fn close(&self) -> KafkaResult<()> {
        self.consumer.close_queue()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.consumer.closed()
    }

    /// Takes what was assigned, paused. Of a whole assignment this is all there is.
    pub(super) fn take(&self, partitions: &[Partition]) -> KafkaResult<()> {
        // From an explicit offset: nobody has to look up what was committed. Where to begin is said by `read_from`.
        let list = self.list(partitions.iter().map(|&p| (p, Offset(0))))?;
        if !self.cooperative {
            self.consumer.assign(&list)?;
        } else if !partitions.is_empty() {
            self.consumer.incremental_assign(&list)?;
        } else {
            self.consumer.incremental_assign(&TopicPartitionList::new())?;
        }
        self.pause(partitions)
    }

    /// Gives back what was revoked.
    pub(super) fn give_back(&self, partitions: &[Partition]) -> KafkaResult<()> {
        if self.cooperative {
            self.consumer.incremental_unassign(&self.list(partitions.iter().map(|&p| (p, Offset(0))))?)
        } else {
            self.consumer.unassign()
        }
    }

    pub(super) fn assignment_lost(&self) -> bool {
        self.consumer.assignment_lost()
    }

    pub(super) fn pause(&self, partitions: &[Partition]) -> KafkaResult<()> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.consumer.pause(&self.list(partitions.iter().map(|&p| (p, Offset(0))))?)
    }

    /// Fetches a partition from here on.
    pub(super) fn read_from(&self, partition: Partition, from: Offset, limit: Duration) -> KafkaResult<()> {
        let offset = keylane_producer::kafka::rdkafka::Offset::Offset(from.0.cast_signed());
        self.consumer.seek(&self.topic, number(partition), offset, limit)?;
        self.consumer.resume(&self.list([(partition, from)])?)
    }

    /// What is committed for each partition.
    pub(super) fn committed(
        &self,
        partitions: &[Partition],
        limit: Duration,
    ) -> KafkaResult<Vec<(Partition, Option<Offset>)>> {
        let asked = self.list(partitions.iter().map(|&p| (p, Offset(0))))?;
        let answer = self.consumer.committed_offsets(asked, limit)?;
        answer
            .elements()
            .iter()
            .map(|element| {
                element.error()?;
                let offset = match element.offset() {
                    keylane_producer::kafka::rdkafka::Offset::Offset(offset) => u64::try_from(offset).ok().map(Offset),
                    _ => None,
                };
                Ok((Partition(element.partition().unsigned_abs()), offset))
            })
            .collect()
    }

    /// The group as its coordinator describes it.
    pub(super) fn groups(&self, group: &str, limit: Duration) -> KafkaResult<GroupList> {
        self.consumer.fetch_group_list(Some(group), limit)
    }

    /// The first offset of a partition, as the broker knows it.
    pub(super) fn first(&self, partition: Partition, limit: Duration) -> KafkaResult<Offset> {
        let (first, _) = self.consumer.fetch_watermarks(&self.topic, number(partition), limit)?;
        Ok(Offset(u64::try_from(first).unwrap_or(0)))
    }

    /// The end of a partition when it was last fetched; `None` if it was not.
    #[expect(unsafe_code, reason = "rust-rdkafka only asks the broker for it")]
    pub(super) fn end(&self, partition: Partition) -> Option<Offset> {
        let (mut first, mut end) = (-1, -1);
        // SAFETY: the client lives, and the name is a C string.
        let answer = unsafe {
            native::rd_kafka_get_watermark_offsets(
                self.native(),
                self.topic_name.as_ptr(),
                number(partition),
                &raw mut first,
                &raw mut end,
            )
        };
        (answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then_some(())?;
        u64::try_from(end).ok().map(Offset)
    }

    /// Who this client is in the group now; `None` outside of it. (Number below 1 or an empty id: Kafka checks nothing
    /// then, so such a one is nobody.) Waits for the client's own thread, so never call it while closing.
    #[expect(unsafe_code, reason = "rust-rdkafka hides the generation and the member id")]
    pub(super) fn standing(&self) -> Option<(MemberId, Generation)> {
        // SAFETY: the metadata is ours until it is destroyed, and the id is a C string in it.
        unsafe {
            let metadata = native::rd_kafka_consumer_group_metadata(self.native());
            if metadata.is_null() {
                return None;
            }
            let generation = native::rd_kafka_consumer_group_metadata_generation_id(metadata);
            let id = native::rd_kafka_consumer_group_metadata_member_id(metadata);
            let id = if id.is_null() { String::new() } else { CStr::from_ptr(id).to_string_lossy().into_owned() };
            native::rd_kafka_consumer_group_metadata_destroy(metadata);
            Some((MemberId::new(&id)?, u64::try_from(generation).ok().and_then(Generation::new)?))
        }
    }

    /// Commits, and waits for the answer up to `limit`; [`RDKafkaErrorCode::OperationTimedOut`] if there is none: it may
    /// still come to be.
    #[expect(unsafe_code, reason = "rust-rdkafka's commit waits without a limit")]
    pub(super) fn commit(&self, offsets: &[(Partition, Offset)], limit: Duration) -> KafkaResult<()> {
        let list = self.list(offsets.iter().copied())?;
        let answers = Queue::new(self.native());
        // SAFETY: list and queue live during the calls; the event is ours until it is destroyed.
        unsafe {
            let asked = native::rd_kafka_commit_queue(self.native(), list.ptr(), answers.0, None, ptr::null_mut());
            if asked != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(KafkaError::ConsumerCommit(asked.into()));
            }
            let event = native::rd_kafka_queue_poll(answers.0, millis(limit));
            if event.is_null() {
                return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut));
            }
            let event = Told(event);
            let error = native::rd_kafka_event_error(event.0);
            let answered = entries(native::rd_kafka_event_topic_partition_list(event.0));
            let failed = |code: &RDKafkaRespErr| *code != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
            let first = Some(error).filter(failed).or(answered.into_iter().map(|(_, code)| code).find(failed));
            first.map_or(Ok(()), |code| Err(KafkaError::ConsumerCommit(code.into())))
        }
    }

    /// Ends a [`Client::poll`] that waits.
    #[expect(unsafe_code, reason = "rust-rdkafka has no way to wake a poll")]
    pub(super) fn wake(&self) {
        // SAFETY: the queue lives.
        unsafe { native::rd_kafka_queue_yield(self.queue.0) }
    }

    /// Waits for something to tell.
    #[expect(unsafe_code, reason = "rust-rdkafka's poll leaves out where a partition ends")]
    pub(super) fn poll(&self, limit: Duration) -> Option<Event> {
        // SAFETY: the queue lives; the event is ours until it is destroyed.
        let event = unsafe { native::rd_kafka_queue_poll(self.queue.0, millis(limit)) };
        if event.is_null() {
            return None;
        }
        let event = Told(event);
        // SAFETY: as above; each reader below is for this type of event.
        let told = unsafe {
            match native::rd_kafka_event_type(event.0) {
                native::RD_KAFKA_EVENT_FETCH => read_record(&event),
                native::RD_KAFKA_EVENT_REBALANCE => read_rebalance(&event),
                native::RD_KAFKA_EVENT_ERROR => self.read_error(&event),
                native::RD_KAFKA_EVENT_LOG => {
                    self.read_log(&event);
                    Event::Other
                }
                native::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => {
                    self.refresh_token();
                    Event::Other
                }
                _ => Event::Other,
            }
        };
        Some(told)
    }

    /// # Safety
    /// It is an error event.
    #[expect(unsafe_code, reason = "as `poll`")]
    unsafe fn read_error(&self, event: &Told) -> Event {
        // SAFETY: by the caller's word; the partition that is told is ours until it is destroyed.
        unsafe {
            let code: RDKafkaErrorCode = native::rd_kafka_event_error(event.0).into();
            let text = CStr::from_ptr(native::rd_kafka_event_error_string(event.0)).to_string_lossy().into_owned();
            let place = native::rd_kafka_event_topic_partition(event.0);
            let partition = (!place.is_null()).then(|| {
                let (partition, offset) = ((*place).partition, (*place).offset);
                native::rd_kafka_topic_partition_destroy(place);
                (Partition(partition.unsigned_abs()), offset)
            });
            if code == RDKafkaErrorCode::PartitionEOF {
                return match partition {
                    Some((partition, offset)) if offset >= 0 => Event::End(partition, Offset(offset.unsigned_abs())),
                    _ => Event::Other,
                };
            }
            let fatal = native::rd_kafka_event_error_is_fatal(event.0) != 0;
            self.context().hear(if fatal { RDKafkaErrorCode::Fatal } else { code }, &text);
            Event::Error(if fatal { RDKafkaErrorCode::Fatal } else { code }, partition.map(|(p, _)| p), text)
        }
    }

    /// # Safety
    /// It is a log event.
    #[expect(unsafe_code, reason = "as `poll`")]
    unsafe fn read_log(&self, event: &Told) {
        let (mut facility, mut text, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: by the caller's word; the texts belong to the event.
        unsafe {
            if native::rd_kafka_event_log(event.0, &raw mut facility, &raw mut text, &raw mut level) == 0 {
                let level = match level {
                    0..=2 => RDKafkaLogLevel::Critical,
                    3 => RDKafkaLogLevel::Error,
                    4 => RDKafkaLogLevel::Warning,
                    _ => RDKafkaLogLevel::Debug,
                };
                let (facility, text) = (CStr::from_ptr(facility), CStr::from_ptr(text));
                self.context().log(level, &facility.to_string_lossy(), &text.to_string_lossy());
            }
        }
    }

    fn refresh_token(&self) {
        token::give(self.consumer.client());
    }

    fn list(&self, offsets: impl IntoIterator<Item = (Partition, Offset)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let offset = keylane_producer::kafka::rdkafka::Offset::Offset(offset.0.cast_signed());
            list.add_partition_offset(&self.topic, number(partition), offset)?;
        }
        Ok(list)
    }
}

/// rust-rdkafka's consumer closes without a limit when it is dropped.
impl Drop for Client {
    #[expect(unsafe_code, reason = "the consumer is dropped on another thread")]
    fn drop(&mut self) {
        // SAFETY: nothing uses the field after this.
        let consumer = unsafe { ManuallyDrop::take(&mut self.consumer) };
        self.queue.let_go();
        let (done, waited) = crossbeam_channel::bounded::<()>(0);
        let goodbye = move || {
            drop(consumer);
            drop(done);
        };
        if std::thread::Builder::new().name("keylane-goodbye".into()).spawn(goodbye).is_ok() {
            let _ = waited.recv_timeout(GOODBYE);
        }
    }
}

/// # Safety
/// It is a fetch event.
#[expect(unsafe_code, reason = "as `Client::poll`")]
unsafe fn read_record(event: &Told) -> Event {
    // SAFETY: by the caller's word; the message belongs to the event.
    unsafe {
        let message = native::rd_kafka_event_message_next(event.0);
        if message.is_null() || (*message).err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Event::Other;
        }
        Event::Record(Partition((*message).partition.unsigned_abs()), message::read(message))
    }
}

/// # Safety
/// It is a rebalance event.
#[expect(unsafe_code, reason = "as `Client::poll`")]
unsafe fn read_rebalance(event: &Told) -> Event {
    // SAFETY: by the caller's word; the list belongs to the event, so it is not dropped here.
    unsafe {
        let list = native::rd_kafka_event_topic_partition_list(event.0);
        let partitions = entries(list).into_iter().map(|(partition, _)| partition).collect();
        match native::rd_kafka_event_error(event.0) {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Event::Assign(partitions),
            _ => Event::Revoke(partitions),
        }
    }
}

/// # Safety
/// `list` is null or a list that lives during the call.
#[expect(unsafe_code, reason = "rust-rdkafka keeps what turns a native list into its own to itself")]
unsafe fn entries(list: *const native::rd_kafka_topic_partition_list_t) -> Vec<(Partition, RDKafkaRespErr)> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller's word; the list says how many it has.
    let entries = unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        if count == 0 { &[] } else { std::slice::from_raw_parts((*list).elems, count) }
    };
    entries.iter().map(|entry| (Partition(entry.partition.unsigned_abs()), entry.err)).collect()
}

fn number(partition: Partition) -> i32 {
    partition.0.cast_signed()
}

fn millis(limit: Duration) -> i32 {
    // Not less than asked: a poll of 0 in a loop would spin.
    i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// An event until it is destroyed.
struct Told(*mut native::rd_kafka_event_t);

impl Drop for Told {
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it after this.
        unsafe { native::rd_kafka_event_destroy(self.0) }
    }
}

/// A handle to a queue.
struct Queue(*mut native::rd_kafka_queue_t);

#[expect(unsafe_code, reason = "librdkafka's queues may be used from every thread")]
// SAFETY: so says its manual; the handle is destroyed once.
unsafe impl Send for Queue {}
#[expect(unsafe_code, reason = "librdkafka's queues may be used from every thread")]
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn new(client: *mut RDKafka) -> Self {
        // SAFETY: the caller's client lives.
        Self(unsafe { native::rd_kafka_queue_new(client) })
    }

    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn of_consumer(client: *mut RDKafka) -> Self {
        // SAFETY: the caller's client lives, and is a consumer of a group.
        Self(unsafe { native::rd_kafka_queue_get_consumer(client) })
    }

    /// Before its client is destroyed.
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn let_go(&mut self) {
        let handle = std::mem::replace(&mut self.0, ptr::null_mut());
        if !handle.is_null() {
            // SAFETY: it is ours, and this is the last use.
            unsafe { native::rd_kafka_queue_destroy(handle) }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.let_go();
    }
}
