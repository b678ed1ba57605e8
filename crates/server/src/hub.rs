//! The connections of a server, and what all of them are told.
//!
//! The invariant here: a connection is in the map from its `initialize` to its end, so whatever goes
//! to all goes to those who have said who they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnlane_rpc::Outgoing;

use crate::connection::Connection;

/// Names a connection within its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The initialised connections of a server.
#[derive(Default)]
pub(crate) struct Hub {
    connections: Mutex<HashMap<ConnectionId, Arc<Connection>>>,
}

impl Hub {
    fn map(&self) -> MutexGuard<'_, HashMap<ConnectionId, Arc<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        self.map().insert(connection.id(), Arc::clone(connection));
    }

    pub(crate) fn remove(&self, id: ConnectionId) {
        self.map().remove(&id);
    }

    pub(crate) fn count(&self) -> usize {
        self.map().len()
    }

    /// Calls this for every connection. It must not wait.
    pub(crate) fn each(&self, mut call: impl FnMut(&Connection)) {
        for connection in self.map().values() {
            call(connection);
        }
    }

    /// Returns true if a connection fits.
    pub(crate) fn any(&self, fits: impl Fn(&Connection) -> bool) -> bool {
        self.map().values().any(|connection| fits(connection))
    }

    /// Tells everybody who wants this method and fits.
    pub(crate) fn tell_all(
        &self,
        method: &str,
        message: &Outgoing,
        fits: impl Fn(&Connection) -> bool,
    ) {
        for connection in self.map().values() {
            if fits(connection) && connection.wants(method) {
                connection.peer().notify(message);
            }
        }
    }
}
