//! The keeper: a small program beside the service that ends everything when the service dies.
//!
//! It is this program started again with [`MARKER`] as its first argument. It has one thread, ignores
//! the signals a terminal or an administrator sends, and lives exactly as long as there is something
//! to end. Under `reaper` it also forks one holder per process, which adopts every orphan of that
//! process; under `cgroup` it only waits. The kind is chosen elsewhere.
//!
//! # Theory of operation
//!
//! - *Start*: the keeper's standard input is one end of the link. The service sends what to hold open
//!   and what to do, the keeper answers, and only then is there a [`KeeperLink`].
//! - *Request* (`reaper`): a plan with its descriptors goes to the socket on which spare holders wait.
//!   One takes it, tells the keeper, who forks the next spare, and starts the leader. From then on it
//!   talks to the service alone, over a socket of its own: started or failed, exited, empty.
//! - *End of one*: the end of the service's half of that socket, or SIGTERM to its holder.
//! - *End of all*: the end of the link, or of the service's process. The keeper ends the holders or
//!   the cgroup, waits for the last, lets go of what it holds, and exits.
//! - *A holder is killed*: its children fall to the keeper, which ends them; the service sees the end
//!   of the socket. *The keeper is killed*: each holder gets SIGTERM and ends its own; the holders fall
//!   to the service, which reaps them ([`reap_fallen_holders`]) and starts another keeper. *Both are*:
//!   what they held falls to the service, which ends it ([`end_orphans`]).
//! - *Service and keeper are killed together*: under `reaper` the holders end what they hold; under
//!   `cgroup` a second keeper (`second`) ends the cgroup. If that is killed as well, the next service
//!   that starts in the same place does (`cgroup::stale`).
//!
//! # What is not covered
//!
//! - Under `reaper`, if a holder, the keeper and the service are all killed before any has cleaned up
//!   behind the others, the descendants of that holder's leader fall to the system's first process. The
//!   leader itself is killed by the kernel.
//! - Under `cgroup`, if service, keeper and second keeper are killed together and no service starts in
//!   the same place again.
//! - A member that is allowed to send signals to the keeper can stop it, and it then ends nothing until
//!   it is continued. A stopped holder is continued by whoever ends it.
//! - A member that changed its uid may not be killable under `reaper`; it is reported.

mod begin;
mod cgroup;
mod held;
mod holder;
mod link;
mod orphans;
mod pace;
mod program;
mod protocol;
mod second;
mod socket;
mod sweep;
mod sys;
mod tree;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use held::{Held, HolderMessage, Starting};
pub(crate) use link::{Job, KeeperLink};
pub(crate) use orphans::{end_orphans, reap_fallen_holders};

/// The first argument of a program that is to be the keeper.
const MARKER: &str = "__keeper";

static HOOKED: AtomicBool = AtomicBool::new(false);

/// Becomes the keeper if this program was started as one, and then does not return. To be called
/// first in `main`, before there is another thread; remembers that it was, so that a service may
/// start this program again.
pub fn keeper_hook() {
    HOOKED.store(true, Ordering::Relaxed);
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == MARKER)
    {
        // A panic must not bring a copy of this process back into the host's `main`.
        let ended = catch_unwind(AssertUnwindSafe(program::run));
        sys::exit(match ended {
            Ok(Ok(())) => 0,
            Ok(Err(_)) => 1,
            Err(_) => 101,
        });
    }
}

fn was_hooked() -> bool {
    HOOKED.load(Ordering::Relaxed)
}

/// Makes the binary of this crate's unit tests a program with a hook: it has no `main` of ours, but
/// what is in this section is called before its own.
#[cfg(test)]
#[used]
#[unsafe(link_section = ".init_array")]
static HOOK_OF_TESTS: extern "C" fn() = {
    extern "C" fn hook() {
        keeper_hook();
    }
    hook
};
