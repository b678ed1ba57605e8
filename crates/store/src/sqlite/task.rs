//! One operation between its submission and its answer.
//!
//! The invariant here: a task is answered exactly once. It may run more often than that, since a
//! batch may have to be carried out again; only the value of its last run is handed out, and only
//! after the commit. A task that is dropped answers that the store is closed.
//!
//! A panic inside an operation ends that operation with an error, not the thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::sqlite::{Db, Op};
use crate::store::Work;

/// An operation whatever its value.
pub(super) trait Task: Send {
    /// What kind of operation it is.
    fn op(&self) -> Op;

    /// Carries it out and keeps the value. A panic is an error.
    fn run(&mut self, db: &Db<'_>) -> Result<(), StoreError>;

    /// Answers with the kept value, or with an error.
    fn settle(self: Box<Self>, end: Result<(), StoreError>);
}

/// An operation, and the future that ends with it.
pub(super) fn task<T, F>(op: Op, work: F) -> (Box<dyn Task>, Work<T>)
where
    T: Send + 'static,
    F: Fn(&Db<'_>) -> Result<T, StoreError> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let task = Typed {
        op,
        work,
        value: None,
        answer,
    };
    let end = async move { answered.await.unwrap_or(Err(StoreError::Closed)) };
    (Box::new(task), Box::pin(end))
}

struct Typed<T, F> {
    op: Op,
    work: F,
    value: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Task for Typed<T, F>
where
    T: Send,
    F: Fn(&Db<'_>) -> Result<T, StoreError> + Send,
{
    fn op(&self) -> Op {
        self.op
    }

    fn run(&mut self, db: &Db<'_>) -> Result<(), StoreError> {
        self.value = None;
        // What a panic could leave half done is in the database, where it is rolled back.
        let end = catch_unwind(AssertUnwindSafe(|| (self.work)(db)));
        let end = end.unwrap_or_else(|panic| {
            let source = Panicked::with(panic.as_ref());
            Err(StoreError::failed(self.op.doing)(source))
        });
        self.value = Some(end?);
        Ok(())
    }

    fn settle(self: Box<Self>, end: Result<(), StoreError>) {
        let Self { value, answer, .. } = *self;
        let end = end.and_then(|()| value.ok_or(StoreError::Closed));
        // Whoever asked may have gone; the operation is carried out all the same.
        let _ = answer.send(end);
    }
}

/// The source of an error that was a panic.
#[derive(Debug, thiserror::Error)]
#[error("the operation panicked: {0}")]
struct Panicked(String);

impl Panicked {
    fn with(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "without a text".to_owned()))
    }
}
