//! Notifications about a job, over lost connections.
//!
//! The invariant here: after a reconnect the job is subscribed again before [`JobEvent::Missed`] is
//! read, so that a caller who then asks for the status misses nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::de::DeserializeOwned;
use turnlane_protocol::fanout::{Job as JobView, JobItem, JobStatus};
use turnlane_protocol::method::fanout::SUBSCRIBE;
use turnlane_protocol::method::{Done, FanoutSubscribeParams};
use turnlane_protocol::notification::{FanoutEnded, FanoutItemUpdated, FanoutUpdated, method};

use super::ItemsOfInterest;
use crate::call::CallOptions;
use crate::core::{Core, Owner};
use crate::error::CallError;
use crate::event::{Event, EventBody, RawEvent};
use crate::feed::{EventStream, Filter};
use crate::link::Repeat;
use crate::review::BoxFuture;

/// A change of a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobEvent {
    /// Its state or its counts are others. Versions never go back.
    Updated(Box<JobStatus>),
    /// An item is another.
    Item(Box<JobItem>),
    /// So many changes of items were left out, because they were not read in time.
    ItemsDropped(u64),
    /// The job has ended, or it is paused and none of its items run. A job that is resumed or retried
    /// ends again.
    Ended(Box<JobView>),
    /// Changes may have been missed: the connection was lost, or the stream was not read.
    Missed,
}

/// The changes of a job: a stream that ends with the client.
pub struct JobEvents {
    owner: Arc<Owner>,
    events: EventStream,
    job: String,
    items: ItemsOfInterest,
    /// The last version that was told.
    version: i64,
    /// The subscription on a new connection, under way.
    renewing: Option<BoxFuture<'static, ()>>,
}

impl JobEvents {
    pub(super) fn new(owner: &Arc<Owner>, job: &str, items: ItemsOfInterest) -> Self {
        let filter = Filter::all().method_prefix("fanout/");
        Self {
            owner: Arc::clone(owner),
            events: owner.router.events(filter),
            job: job.to_owned(),
            items,
            version: 0,
            renewing: None,
        }
    }

    /// The next change; none when the client is closed. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<JobEvent> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The change that an event tells; none for events about other jobs and older versions.
    fn change(&mut self, event: Event) -> Option<JobEvent> {
        let raw = match event.body {
            EventBody::Unknown(raw) => raw,
            EventBody::Lagged { .. } => return Some(JobEvent::Missed),
            EventBody::Reconnected { .. } => {
                self.renewing = Some(renewed(&self.owner, &self.job, self.items));
                return None;
            }
            _ => return None,
        };
        match raw.method.as_str() {
            method::FANOUT_UPDATED => {
                let job = read::<FanoutUpdated>(&raw)?.job;
                let is_news = job.id == self.job && job.version >= self.version;
                is_news.then(|| {
                    self.version = job.version;
                    JobEvent::Updated(job)
                })
            }
            method::FANOUT_ENDED => {
                let job = read::<FanoutEnded>(&raw)?.job;
                let is_news = job.status.id == self.job && job.status.version >= self.version;
                is_news.then(|| {
                    self.version = job.status.version;
                    JobEvent::Ended(job)
                })
            }
            method::FANOUT_ITEM_UPDATED if self.items == ItemsOfInterest::All => {
                let told = read::<FanoutItemUpdated>(&raw)?;
                if told.job_id != self.job {
                    return None;
                }
                match (told.item, told.dropped) {
                    (Some(item), _) => Some(JobEvent::Item(item)),
                    (None, Some(dropped)) => Some(JobEvent::ItemsDropped(dropped)),
                    (None, None) => None,
                }
            }
            _ => None,
        }
    }
}

impl Stream for JobEvents {
    type Item = JobEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<JobEvent>> {
        let this = self.get_mut();
        loop {
            if let Some(renewing) = &mut this.renewing {
                ready!(renewing.as_mut().poll(cx));
                this.renewing = None;
                return Poll::Ready(Some(JobEvent::Missed));
            }
            let Some(event) = ready!(Pin::new(&mut this.events).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            if let Some(change) = this.change(event) {
                return Poll::Ready(Some(change));
            }
        }
    }
}

impl std::fmt::Debug for JobEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobEvents")
            .field("job", &self.job)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn read<T: DeserializeOwned>(raw: &RawEvent) -> Option<T> {
    serde_json::from_str(raw.params.get()).ok()
}

/// Subscribes this connection to a job.
pub(super) async fn subscribe(
    core: &Core,
    job: &str,
    items: ItemsOfInterest,
) -> Result<(), CallError> {
    let params = FanoutSubscribeParams {
        job_id: Some(job.to_owned()),
        items: items == ItemsOfInterest::All,
    };
    let options = CallOptions::default();
    let done: Result<Done, CallError> = core
        .call_as(SUBSCRIBE, &params, Repeat::Harmless, options)
        .await;
    done.map(|_| ())
}

/// The subscription on another connection. A refusal is no error here: the status call that follows
/// [`JobEvent::Missed`] meets it too.
fn renewed(owner: &Arc<Owner>, job: &str, items: ItemsOfInterest) -> BoxFuture<'static, ()> {
    let (core, job) = (Arc::clone(owner), job.to_owned());
    Box::pin(async move {
        if let Err(error) = subscribe(&core, &job, items).await {
            tracing::warn!(%error, %job, "the job could not be subscribed again");
        }
    })
}
