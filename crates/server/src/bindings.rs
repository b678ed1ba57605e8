//! Which connection holds which binding.
//!
//! The invariant here: a binding has at most one holder among the connections of this server, from
//! the start that bound it to the end of that connection. A connection of another process is kept away
//! by the owner of the lane, not by this map.
//!
//! Which thread a binding leads to is decided by the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use turnlane_protocol::error::ErrorObject;

use crate::connection::Connection;

/// The bindings that connections hold.
#[derive(Default)]
pub(crate) struct Bindings {
    /// A holder that was dropped holds nothing: a request that outlived its connection may have left
    /// it here.
    holders: Mutex<HashMap<String, Weak<Connection>>>,
}

impl Bindings {
    fn map(&self) -> MutexGuard<'_, HashMap<String, Weak<Connection>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection the holder of a binding; refused while another one is.
    pub(crate) fn hold(cx: &Arc<Connection>, key: &str) -> Result<Hold, ErrorObject> {
        let mut map = cx.shared().bindings.map();
        let holder = map.get(key).and_then(Weak::upgrade);
        let is_new = match holder {
            Some(holder) if holder.id() != cx.id() => {
                return Err(ErrorObject::binding_in_use(key));
            }
            Some(_) => false,
            None => {
                map.insert(key.to_owned(), Arc::downgrade(cx));
                true
            }
        };
        drop(map);
        Ok(Hold {
            cx: Arc::clone(cx),
            key: key.to_owned(),
            is_new,
        })
    }

    /// Frees all bindings of a connection that has ended.
    pub(crate) fn release_all(&self, cx: &Connection) {
        self.map().retain(|_, holder| {
            holder
                .upgrade()
                .is_some_and(|holder| holder.id() != cx.id())
        });
    }
}

/// A binding that a request holds. Dropped without [`Hold::keep`], it is free again.
pub(crate) struct Hold {
    cx: Arc<Connection>,
    key: String,
    /// The connection did not hold it before this request.
    is_new: bool,
}

impl Hold {
    /// The request was served: the connection holds the binding until it ends.
    pub(crate) fn keep(mut self) {
        self.is_new = false;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_new {
            return;
        }
        let mut map = self.cx.shared().bindings.map();
        let is_ours = |holder: &Weak<Connection>| {
            let holder = holder.upgrade();
            holder.is_none_or(|holder| holder.id() == self.cx.id())
        };
        if map.get(&self.key).is_some_and(is_ours) {
            map.remove(&self.key);
        }
    }
}
