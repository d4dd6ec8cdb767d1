//! One librdkafka consumer on one topic, and what its bindings tell that rust-rdkafka 0.39 does not: the generation.
//!
//! Nothing is decided here.

use std::{
    ffi::{CStr, CString},
    time::Duration,
};

use keylane_producer::{
    Offset, Partition,
    kafka::{
        KafkaContext,
        consumer::PolledConsumer,
        events::{self, Event},
        rdkafka::{
            self, TopicPartitionList, bindings as native,
            config::ClientConfig,
            consumer::Consumer,
            error::KafkaResult,
            groups::GroupList,
            types::{RDKafka, RDKafkaRespErr},
        },
    },
};

use crate::fence::{Generation, MemberId};

/// A client on one topic.
pub(super) struct Client {
    consumer: PolledConsumer,
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
        let consumer = PolledConsumer::open(config, context)?;
        Ok(Self { consumer, topic: topic.into(), topic_name: CString::new(topic)?, cooperative })
    }

    pub(super) fn context(&self) -> &KafkaContext {
        self.consumer.context()
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
        // In this order: the client's fetching thread is not woken by a resume, and then sleeps up to a second. An earlier
        // assignment may have left its records held, which lasts.
        self.consumer.resume(&self.list([(partition, from)])?)?;
        self.seek(partition, from, limit).inspect_err(|_| drop(self.pause(&[partition])))?;
        self.let_go_on(partition);
        Ok(())
    }

    /// Keeps what is fetched of a partition to the client until [`Client::let_go_on`]. A pause would throw it away.
    pub(super) fn hold(&self, partition: Partition) {
        self.consumer.hold(&self.topic_name, partition);
    }

    /// Tells what was held of a partition, and what comes.
    pub(super) fn let_go_on(&self, partition: Partition) {
        self.consumer.let_go_on(&self.topic_name, partition);
    }

    /// Goes on fetching from here, and at once: a seek wakes the thread that fetches, if it begins anew by it.
    pub(super) fn seek(&self, partition: Partition, from: Offset, limit: Duration) -> KafkaResult<()> {
        // At 0 only the question where the partition begins makes it begin anew.
        let offset = match from.0 {
            0 => rdkafka::Offset::Beginning,
            from => rdkafka::Offset::Offset(from.cast_signed()),
        };
        self.consumer.seek(&self.topic, number(partition), offset, limit)
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
                    rdkafka::Offset::Offset(offset) => u64::try_from(offset).ok().map(Offset),
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

    /// Commits, and waits for the answer up to `limit`.
    pub(super) fn commit(&self, offsets: &[(Partition, Offset)], limit: Duration) -> KafkaResult<()> {
        events::commit(self.consumer.client(), &self.list(offsets.iter().copied())?, limit)
    }

    /// Ends a [`Client::poll`] that waits.
    pub(super) fn wake(&self) {
        self.consumer.wake();
    }

    /// What librdkafka offers for tests of fatal errors.
    #[cfg(feature = "conformance")]
    #[expect(unsafe_code, reason = "rust-rdkafka does not offer it")]
    pub(super) fn fail_for_good(&self, why: &str) {
        let why = CString::new(why).unwrap_or_default();
        // SAFETY: the client lives, and the text is a C string.
        unsafe {
            native::rd_kafka_test_fatal_error(
                self.native(),
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
                why.as_ptr(),
            );
        }
    }

    /// Waits for something to tell.
    pub(super) fn poll(&self, limit: Duration) -> Option<Event> {
        self.consumer.poll_topic(&self.topic_name, limit)
    }

    fn list(&self, offsets: impl IntoIterator<Item = (Partition, Offset)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let offset = rdkafka::Offset::Offset(offset.0.cast_signed());
            list.add_partition_offset(&self.topic, number(partition), offset)?;
        }
        Ok(list)
    }
}

fn number(partition: Partition) -> i32 {
    partition.0.cast_signed()
}
