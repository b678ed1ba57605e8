//! The thread on which children live: one per program, with a runtime of its own.
//!
//! The invariant here: it never ends before the program does. So a child outlives the runtime its
//! client was opened on just long enough to be ended in order, whoever dropped that runtime, and
//! whether anybody drives it.
//!
//! A program has to do nothing for it. One that calls `turnlane_process::keeper_hook` first in its
//! `main` gets the stronger containments: then also those descendants of a server end with it that
//! left its process group, and they end when the program is killed.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{OnceCell, oneshot};
use turnlane_process::{ContainmentKind, Options, ProcessService};

/// Where children live; clones are the same place.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(super) runtime: Handle,
    pub(crate) service: ProcessService,
}

impl Home {
    pub(crate) fn containment(&self) -> ContainmentKind {
        self.service.report().containment
    }
}

static HOME: OnceCell<Home> = OnceCell::const_new();

/// The home, made by the first who asks.
pub(crate) async fn find() -> io::Result<Home> {
    HOME.get_or_try_init(start).await.cloned()
}

async fn start() -> io::Result<Home> {
    let (tell, started) = oneshot::channel();
    std::thread::Builder::new()
        .name("turnlane-child".to_owned())
        .spawn(move || live(tell))?;
    let gone = |_| io::Error::other("the thread for children died");
    started.await.map_err(gone)?
}

fn live(tell: oneshot::Sender<io::Result<Home>>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Whoever asked may be gone; then nobody needs the error.
            let _ = tell.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let home = ProcessService::start(Options::default()).map(|service| Home {
            runtime: Handle::current(),
            service,
        });
        let is_wanted = tell.send(home.map_err(io::Error::other)).is_ok();
        if is_wanted {
            std::future::pending::<()>().await;
        }
    });
}
