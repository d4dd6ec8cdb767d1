//! A consumer whose events we read ourselves, and that is gone within a limit.

use std::{ffi::CStr, mem::ManuallyDrop, ops::Deref, sync::mpsc, time::Duration};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
    error::KafkaResult,
};

use super::{
    KafkaContext,
    events::{Event, Queue},
};
use crate::partition::Partition;

/// rust-rdkafka's consumer closes without a limit when it is dropped: brokers that are gone would hold its owner for ever.
const GOODBYE: Duration = Duration::from_secs(5);

/// A consumer with a group's name, whether it ever joins or not.
pub struct PolledConsumer {
    queue: Queue,
    consumer: ManuallyDrop<BaseConsumer<KafkaContext>>,
}

impl PolledConsumer {
    /// Connects when it is needed.
    ///
    /// # Errors
    /// A property that does not fit.
    pub fn open(config: &ClientConfig, context: KafkaContext) -> KafkaResult<Self> {
        let consumer: BaseConsumer<KafkaContext> = config.create_with_context(context)?;
        Ok(Self { queue: Queue::of_consumer(consumer.client()), consumer: ManuallyDrop::new(consumer) })
    }

    /// What its client heard.
    pub fn context(&self) -> &KafkaContext {
        self.consumer.client().context()
    }

    /// Waits for something to tell about a topic.
    pub fn poll_topic(&self, topic: &CStr, limit: Duration) -> Option<Event> {
        self.queue.poll(self.consumer.client(), topic, limit)
    }

    /// What comes of a partition stays in the client, up to the bound of its queue, and polls do not tell it; what was on its
    /// way to them already still comes.
    pub fn hold(&self, topic: &CStr, partition: Partition) {
        if let Some(queue) = Queue::of_partition(self.consumer.client(), topic, partition) {
            queue.forward(None);
        }
    }

    /// Polls tell what comes of a partition, and first what was held.
    pub fn let_go_on(&self, topic: &CStr, partition: Partition) {
        if let Some(queue) = Queue::of_partition(self.consumer.client(), topic, partition) {
            queue.forward(Some(&self.queue));
        }
    }

    /// Ends a [`PolledConsumer::poll_topic`] that waits.
    pub fn wake(&self) {
        self.queue.wake();
    }
}

impl Deref for PolledConsumer {
    type Target = BaseConsumer<KafkaContext>;

    fn deref(&self) -> &BaseConsumer<KafkaContext> {
        &self.consumer
    }
}

impl Drop for PolledConsumer {
    #[expect(unsafe_code, reason = "the consumer is dropped on another thread")]
    fn drop(&mut self) {
        self.queue.let_go();
        // SAFETY: nothing uses the field after this.
        let consumer = unsafe { ManuallyDrop::take(&mut self.consumer) };
        let (done, waited) = mpsc::channel::<()>();
        let goodbye = move || {
            drop(consumer);
            drop(done);
        };
        if std::thread::Builder::new().name("keylane-goodbye".into()).spawn(goodbye).is_ok() {
            let _ = waited.recv_timeout(GOODBYE);
        }
    }
}
