//! The same handles without async: each method waits on the thread that called it.
//!
//! The invariant here: a client owns one runtime on one thread of its own, and no method waits inside
//! somebody else's runtime: it would stop that runtime, so it is refused before anything is sent. The
//! last handle ends the runtime, after what was queued (an interrupt of a dropped stream) was written.
//!
//! Everything else is the async client's: builders are its builders, errors its errors. What is not
//! here (events, hooks, automation) needs the async client.
//!
//! ```no_run
//! use turnlane::Endpoint;
//! use turnlane::blocking::Client;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Endpoint::turnlane())?;
//! let thread = client.threads().start("/srv/app").open()?;
//! for event in thread.turn("Run the tests").stream()? {
//!     if let turnlane::TurnEvent::Delta(delta) = event? {
//!         print!("{}", delta.text());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod engine;
mod turn;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use turn::{Turn, TurnBuilder, TurnStream};

use crate::call::CallOptions;
use crate::client::ClientBuilder;
use crate::endpoint::Endpoint;
use crate::error::{CallError, ConnectError, QuickRunError, ShutdownError, ThreadError, TurnError};
use crate::ids::ThreadId;
use crate::input::Input;
use crate::link::{ExitReport, ServerInfo};
use crate::outcome::TurnOutcome;
use crate::policy::EffectivePolicy;
use engine::Engine;

/// [`quick_run`](crate::quick_run), waited for.
pub fn quick_run(
    cwd: impl AsRef<Path>,
    prompt: impl Into<Input>,
) -> Result<TurnOutcome, QuickRunError> {
    Engine::start()?.wait(crate::quick_run(cwd, prompt))
}

/// A connection to a server; clones are the same one. The server that a client started ends with its
/// last handle.
#[derive(Clone, Debug)]
pub struct Client {
    // Dropped before the engine that runs it.
    inner: crate::client::Client,
    engine: Arc<Engine>,
}

impl Client {
    /// Connects with the defaults.
    pub fn connect(endpoint: Endpoint) -> Result<Self, ConnectError> {
        Self::build(crate::client::Client::builder().endpoint(endpoint))
    }

    /// Connects to the daemon, else to a server of its own, as the async client does.
    pub fn connect_default() -> Result<Self, ConnectError> {
        Self::open(crate::client::Client::connect_default())
    }

    /// Connects with every choice open.
    pub fn build(builder: ClientBuilder) -> Result<Self, ConnectError> {
        Self::open(builder.connect())
    }

    fn open(
        connecting: impl Future<Output = Result<crate::client::Client, ConnectError>>,
    ) -> Result<Self, ConnectError> {
        let engine = Engine::start()?;
        let inner = engine.wait(connecting)?;
        Ok(Self {
            inner,
            engine: Arc::new(engine),
        })
    }

    /// Which server this is.
    pub fn server(&self) -> ServerInfo {
        self.inner.server()
    }

    /// One prompt on a new thread.
    pub fn run(
        &self,
        cwd: impl AsRef<Path>,
        prompt: impl Into<Input>,
    ) -> Result<TurnOutcome, TurnError> {
        self.engine.wait(self.inner.run(cwd, prompt))
    }

    /// Its threads.
    pub fn threads(&self) -> Threads {
        Threads {
            inner: self.inner.threads(),
            engine: Arc::clone(&self.engine),
        }
    }

    /// Any call.
    pub fn call_raw(
        &self,
        method: &str,
        params: Value,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        self.engine
            .wait(self.inner.call_raw(method, params, options))
    }

    /// Ends the connection in order, and the server if this client started it.
    pub fn shutdown(self, grace: Duration) -> Result<ExitReport, ShutdownError> {
        self.engine.wait(self.inner.shutdown(grace))
    }
}

/// The threads of a client.
#[derive(Clone, Debug)]
pub struct Threads {
    inner: crate::thread::Threads,
    engine: Arc<Engine>,
}

impl Threads {
    /// A new thread that works in `cwd`.
    pub fn start(&self, cwd: impl AsRef<Path>) -> Opening<crate::thread::ThreadBuilder> {
        self.opening(self.inner.start(cwd))
    }

    /// A thread that is there already.
    pub fn resume(&self, id: impl Into<ThreadId>) -> Opening<crate::thread::ThreadBuilder> {
        self.opening(self.inner.resume(id))
    }

    /// A new thread that begins with another one's history.
    pub fn fork(&self, id: impl Into<ThreadId>) -> Opening<crate::thread::ForkBuilder> {
        self.opening(self.inner.fork(id))
    }

    fn opening<B>(&self, builder: B) -> Opening<B> {
        Opening {
            builder,
            engine: Arc::clone(&self.engine),
        }
    }
}

/// How a thread is started, resumed or forked.
#[derive(Debug)]
#[must_use = "nothing happens until it is opened"]
pub struct Opening<B> {
    builder: B,
    engine: Arc<Engine>,
}

impl<B> Opening<B>
where
    B: IntoFuture<Output = Result<crate::thread::Thread, ThreadError>>,
{
    /// Chooses what the async builder can choose.
    pub fn with(self, choose: impl FnOnce(B) -> B) -> Self {
        Self {
            builder: choose(self.builder),
            engine: self.engine,
        }
    }

    /// Asks the server for the thread.
    pub fn open(self) -> Result<Thread, ThreadError> {
        let inner = self.engine.wait(self.builder.into_future())?;
        Ok(Thread {
            inner,
            engine: self.engine,
        })
    }
}

/// A conversation; clones are the same one. Dropping it does nothing on the server.
#[derive(Clone, Debug)]
pub struct Thread {
    inner: crate::thread::Thread,
    engine: Arc<Engine>,
}

impl Thread {
    /// Its id.
    pub fn id(&self) -> &ThreadId {
        self.inner.id()
    }

    /// What the server granted.
    pub fn effective(&self) -> EffectivePolicy {
        self.inner.effective()
    }

    /// Something to do.
    pub fn turn(&self, input: impl Into<Input>) -> TurnBuilder {
        TurnBuilder::new(self.inner.turn(input), Arc::clone(&self.engine))
    }

    /// Puts it away, once; later calls return the first result.
    pub fn archive(&self) -> Result<(), CallError> {
        self.engine.wait(self.inner.archive())
    }

    /// Whether it was archived, closed or deleted, here or elsewhere.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}
