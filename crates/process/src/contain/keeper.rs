//! The keeper: a small program beside the service that ends everything when the service dies.
//!
//! It is this program started again with [`MARKER`] as its first argument. It has one thread, ignores
//! the signals a terminal or an administrator sends, and lives exactly as long as there is something
//! to end. Under `reaper` it also starts one holder per process, which adopts every orphan of that
//! process; under `cgroup` it only waits. The kind is chosen elsewhere.

mod held;
mod link;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use held::{Held, HolderMessage, Starting};
pub(crate) use link::{Job, KeeperLink, reap_fallen_holders};

/// The first argument of a program that is to be the keeper.
pub(crate) const MARKER: &str = "__keeper";

static HOOKED: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper if this program was started as one, and then does not return. To be called
/// first in `main`; remembers that it was, so that a service may start this program again.
pub fn keeper_hook() {
    HOOKED.store(true, Ordering::Relaxed);
    todo!()
}
