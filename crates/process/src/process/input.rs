//! Room in the input queue, and the wait for it.
//!
//! A place in the order is held by a value: whoever drops it before it was used, also by giving up
//! the wait, gives the place back.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;

use crate::driver::Shared;
use crate::error::InputError;

/// Room in the input queue; see [`crate::Process::reserve`].
pub struct Permit {
    shared: Arc<Shared>,
    ticket: u64,
    is_used: bool,
}

impl Permit {
    pub(super) async fn reserve(shared: &Arc<Shared>, len: usize) -> Result<Self, InputError> {
        let ticket = shared.lock().input.enter(len)?;
        // Held from here on: a caller that goes away gives its place back.
        let permit = Self {
            shared: Arc::clone(shared),
            ticket,
            is_used: false,
        };
        poll_fn(|cx| permit.shared.lock().input.poll_admitted(ticket, cx)).await?;
        Ok(permit)
    }

    /// Queues the bytes the room was reserved for. Never waits.
    pub fn send(mut self, bytes: Bytes) -> Result<(), InputError> {
        self.is_used = true;
        self.shared
            .change(|state| state.input.send(self.ticket, bytes))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_used {
            // The driver may have waited for this place to be filled.
            self.shared.change(|state| state.input.give_up(self.ticket));
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}
