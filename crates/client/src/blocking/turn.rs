//! Turns of a blocking client.
//!
//! The invariant here: as in the async client, a stream owns its turn and a [`Turn`] owns nothing.

use std::sync::Arc;

use super::engine::{Engine, Inside as _};
use crate::error::{CallError, SteerError, TurnError};
use crate::event::TurnEvent;
use crate::ids::TurnId;
use crate::input::Input;
use crate::outcome::TurnOutcome;

/// A turn to be run.
#[derive(Debug)]
#[must_use = "nothing happens until it is run or streamed"]
pub struct TurnBuilder {
    inner: crate::turn::TurnBuilder,
    engine: Arc<Engine>,
}

impl TurnBuilder {
    pub(super) fn new(inner: crate::turn::TurnBuilder, engine: Arc<Engine>) -> Self {
        Self { inner, engine }
    }

    /// Chooses what the async builder can choose.
    pub fn with(
        self,
        choose: impl FnOnce(crate::turn::TurnBuilder) -> crate::turn::TurnBuilder,
    ) -> Self {
        Self {
            inner: choose(self.inner),
            engine: self.engine,
        }
    }

    /// Starts it and streams what happens. Dropping the stream interrupts the turn.
    pub fn stream(self) -> Result<TurnStream, TurnError> {
        let inner = self.engine.wait(self.inner.stream())?;
        Ok(TurnStream {
            inner,
            engine: self.engine,
            refused: false,
        })
    }

    /// Runs it to its end.
    pub fn run(self) -> Result<TurnOutcome, TurnError> {
        self.engine.wait(self.inner.run())
    }
}

/// What happens in a turn, one event at a time. Dropping it before the end interrupts the turn.
#[derive(Debug)]
pub struct TurnStream {
    inner: crate::turn::TurnStream,
    engine: Arc<Engine>,
    /// Refused once inside a runtime; a loop over the events must end.
    refused: bool,
}

impl TurnStream {
    /// The turn; none until its id is known.
    pub fn turn(&self) -> Option<Turn> {
        let inner = self.inner.turn()?;
        Some(Turn {
            inner,
            engine: Arc::clone(&self.engine),
        })
    }

    /// Lets the turn go on without this stream.
    pub fn detach(self) -> Option<Turn> {
        let inner = self.inner.detach()?;
        Some(Turn {
            inner,
            engine: self.engine,
        })
    }

    /// Waits for the end, whatever it is.
    pub fn outcome(self) -> Result<TurnOutcome, TurnError> {
        self.engine.wait(self.inner.outcome())
    }
}

impl Iterator for TurnStream {
    type Item = Result<TurnEvent, TurnError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.refused {
            return None;
        }
        // Two layers: whether we may wait, and what came.
        let next = async { Ok::<_, CallError>(self.inner.next().await) };
        let waited = self.engine.wait(next);
        waited.unwrap_or_else(|_inside| {
            self.refused = true;
            Some(Err(TurnError::inside()))
        })
    }
}

/// A turn by its id; clones are the same one. Dropping it does nothing.
#[derive(Clone, Debug)]
pub struct Turn {
    inner: crate::turn::Turn,
    engine: Arc<Engine>,
}

impl Turn {
    /// Its id.
    pub fn id(&self) -> &TurnId {
        self.inner.id()
    }

    /// Says more to it while it runs.
    pub fn steer(&self, input: impl Into<Input>) -> Result<(), SteerError> {
        self.engine.wait(self.inner.steer(input))
    }

    /// Stops it.
    pub fn interrupt(&self) -> Result<(), CallError> {
        self.engine.wait(self.inner.interrupt())
    }

    /// Waits for its end, also when it has ended before.
    pub fn outcome(&self) -> Result<TurnOutcome, TurnError> {
        self.engine.wait(self.inner.outcome())
    }
}
