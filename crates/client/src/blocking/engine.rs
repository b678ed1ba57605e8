//! The runtime that a blocking client owns.
//!
//! The invariant here: it runs on a thread of its own from start to end, so tasks go on while nobody
//! waits, and no caller's thread ever drops a runtime, which would panic inside another one.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{
    CallError, ConnectError, QuickRunError, ShutdownError, SteerError, ThreadError, TurnError,
};

/// How long the runtime stays after the last handle, for what was queued.
const LINGER_MAX: Duration = Duration::from_secs(2);

/// How often a runtime without handles looks whether its tasks have ended.
const LINGER_STEP: Duration = Duration::from_millis(5);

const NAME: &str = "turnlane-blocking";

const INSIDE: &str =
    "a blocking method was called inside a tokio runtime; use the async client there";

/// A runtime on its own thread, until this is dropped.
#[derive(Debug)]
pub(super) struct Engine {
    handle: Handle,
    /// Dropped with this: the sign to end.
    _alive: oneshot::Sender<()>,
}

impl Engine {
    pub(super) fn start() -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Spawn {
            program: NAME.into(),
            source,
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (alive, gone) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async {
                let _ = gone.await;
                let _ = tokio::time::timeout(LINGER_MAX, until_idle()).await;
            });
        };
        std::thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(serve)
            .map_err(failed)?;
        Ok(Self {
            handle,
            _alive: alive,
        })
    }

    /// Waits for the future on this thread; refuses inside another runtime.
    pub(super) fn wait<T, E: Inside>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if Handle::try_current().is_ok() {
            return Err(E::inside());
        }
        self.handle.block_on(future)
    }
}

/// Resolves when no task is left: the connection has been closed with the last handle, and its tasks
/// end when everything is written.
async fn until_idle() {
    let metrics = Handle::current().metrics();
    while metrics.num_alive_tasks() > 0 {
        tokio::time::sleep(LINGER_STEP).await;
    }
}

/// An error that can say: not inside a runtime.
pub(super) trait Inside {
    fn inside() -> Self;
}

impl Inside for CallError {
    fn inside() -> Self {
        Self::InvalidArgument {
            what: "blocking",
            reason: INSIDE.to_owned(),
        }
    }
}

impl Inside for ConnectError {
    fn inside() -> Self {
        Self::InvalidArgument {
            what: "blocking",
            reason: INSIDE.to_owned(),
        }
    }
}

impl Inside for TurnError {
    fn inside() -> Self {
        Self::Call(CallError::inside())
    }
}

impl Inside for ThreadError {
    fn inside() -> Self {
        Self::Call(CallError::inside())
    }
}

impl Inside for SteerError {
    fn inside() -> Self {
        Self::Call(CallError::inside())
    }
}

impl Inside for QuickRunError {
    fn inside() -> Self {
        Self::Connect(ConnectError::inside())
    }
}

impl Inside for ShutdownError {
    fn inside() -> Self {
        Self::Process(std::io::Error::other(INSIDE))
    }
}
