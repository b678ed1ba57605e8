//! Requests that wait for something, beside the reading of their connection.
//!
//! A call is tried where it was read, so that one that need not wait costs no task and calls keep
//! their order; only what waits becomes a task. All of them end with the connection: dropping
//! [`Calls`] drops them, and none of them holds up its end.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::task::{JoinError, JoinSet};

use super::outbox::Responder;
use crate::failure;

/// Reads, waits and blocked writes a connection may have under way.
const WAITING_MAX: usize = 4096;

/// File calls a connection may have under way; it is not read while there are more.
const FILES_MAX: usize = 64;

/// The calls of one connection.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    tasks: JoinSet<Kind>,
    files: usize,
    starts: usize,
}

/// What kind of call a task was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Waits for a child. Refused when there are too many.
    Waiting,
    /// Starts a child. Bounded by the number of processes.
    Start,
    /// Waits for the file system.
    File,
}

impl Calls {
    /// Runs a call to its first wait, and the rest as a task.
    pub(crate) fn run(
        &mut self,
        kind: Kind,
        responder: &Responder,
        call: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut call: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(call);
        // Whatever wakes it before it is a task is not lost: a new task is always looked at.
        let mut context = Context::from_waker(Waker::noop());
        if call.as_mut().poll(&mut context).is_ready() {
            return;
        }
        match kind {
            Kind::Waiting if self.waiting() >= WAITING_MAX => {
                return responder.fail(&failure::overloaded());
            }
            Kind::Waiting => {}
            Kind::Start => self.starts += 1,
            Kind::File => self.files += 1,
        }
        self.tasks.spawn(async move {
            call.await;
            kind
        });
    }

    fn waiting(&self) -> usize {
        self.tasks.len() - self.files - self.starts
    }

    /// Whether the connection should be read no further before a call has ended.
    pub(crate) fn are_full(&self) -> bool {
        self.files >= FILES_MAX
    }

    /// Resolves when a call has ended, never if there is none; an error is a call that panicked.
    pub(crate) async fn ended(&mut self) -> Result<(), JoinError> {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(ended) => {
                match ended? {
                    Kind::Waiting => {}
                    Kind::Start => self.starts -= 1,
                    Kind::File => self.files -= 1,
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use turnlane_protocol::envelope::RequestId;

    use super::*;
    use crate::server::outbox::Outbox;

    fn responder(outbox: &Arc<Outbox>, id: i64) -> Responder {
        Responder {
            id: RequestId::from(id),
            outbox: Arc::clone(outbox),
            metrics: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_call_too_many_is_refused_and_one_that_need_not_wait_never_is() {
        let outbox = Arc::new(Outbox::new(1));
        let mut calls = Calls::default();
        for id in 0..=WAITING_MAX {
            let id = i64::try_from(id).unwrap();
            calls.run(
                Kind::Waiting,
                &responder(&outbox, id),
                std::future::pending(),
            );
        }
        let told = || {
            let answers = outbox.take().answers.into_iter();
            answers.map(|answer| answer.frame).collect::<Vec<_>>()
        };
        let refused = told();
        assert_eq!(
            refused,
            [&br#"{"error":{"code":-32001,"message":"server overloaded; retry later"},"id":4096}"#[..]]
        );
        let done = responder(&outbox, 5000);
        calls.run(Kind::Waiting, &done, {
            let done = done.clone();
            async move { done.respond(Ok(true)) }
        });
        assert_eq!(told(), [&br#"{"id":5000,"result":true}"#[..]]);
    }

    #[tokio::test]
    async fn what_waits_goes_on_as_a_task_and_ends_with_the_connection() {
        let outbox = Arc::new(Outbox::new(1));
        let mut calls = Calls::default();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let responder = responder(&outbox, 1);
        calls.run(Kind::Start, &responder, {
            let responder = responder.clone();
            async move {
                let _ = gone.await;
                responder.respond(Ok(1));
            }
        });
        go.send(()).unwrap();
        calls.ended().await.unwrap();
        assert_eq!(outbox.take().answers.len(), 1);
        let (dropped, held) = tokio::sync::oneshot::channel::<()>();
        calls.run(Kind::File, &responder, async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        drop(calls);
        let mut dropped = dropped;
        dropped.closed().await;
    }
}
