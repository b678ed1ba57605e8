//! `turnlane app-server`: serve threads and turns until told to stop.
//!
//! Listeners are bound before anything else is started; what is said on standard error begins with
//! their addresses. Standard output belongs to the protocol. The end of standard input ends a server
//! that has no other transport, at once; a signal lets running turns come to their end for a while, a
//! second one does not.

pub(super) mod listening;

use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::Duplex;
use turnlane_rpc::listen::ListenUrl;
use turnlane_server::PeerKind;

use crate::args::AppServer;
use crate::assembly::{Assembly, Kind};
use crate::config::{ConfigFiles, Layers};
use crate::{home, runtime, signals};

pub(crate) fn run(args: &AppServer, overrides: &[String]) -> anyhow::Result<()> {
    let urls = listening::urls(args)?;
    let home = home::open()?;
    home::make(&home)?;
    let codex_home = home::codex();
    let layers = Layers::new(&home, codex_home.as_deref(), overrides);
    let files = ConfigFiles::new(layers);
    runtime::block_on(serve(args, urls, &home, codex_home.as_deref(), files))?
}

async fn serve(
    args: &AppServer,
    urls: Vec<ListenUrl>,
    home: &Path,
    codex_home: Option<&Path>,
    files: ConfigFiles,
) -> anyhow::Result<()> {
    let config = files.current()?;
    for text in &config.without_effect {
        tracing::warn!("{text}");
    }
    // First: whoever reads an address from us may signal at once, and a socket is ours to remove.
    let stop = CancellationToken::new();
    let signals = signals::stop_by_signals(stop.clone(), signals::Hangup::Ends)?;
    let listeners = listening::bind(&urls, home, &config.server, &args.auth).await?;
    let script = args.script.as_deref();
    let assembly = Assembly::start(Kind::AppServer, script, home, codex_home, files).await?;
    let has_listeners = !listeners.is_empty();
    let mut serving = JoinSet::new();
    for listener in listeners {
        let server = assembly.server.clone();
        let stop = stop.clone();
        serving.spawn(async move { server.run_listener(listener, stop).await });
    }
    let ended = if urls.contains(&ListenUrl::Stdio) {
        tokio::select! {
            _ = assembly.server.serve(Duplex::stdio(), PeerKind::Stdio) => Ended::Input,
            () = stop.cancelled() => Ended::Signal,
        }
    } else {
        stop.cancelled().await;
        Ended::Signal
    };
    if ended == Ended::Input && has_listeners {
        // Others are still served.
        stop.cancelled().await;
    }
    stop.cancel();
    let grace = match ended {
        Ended::Input if !has_listeners => Duration::ZERO,
        Ended::Input | Ended::Signal => config.server.shutdown_grace,
    };
    assembly
        .stop(grace, &CancellationToken::new(), &signals.hurry)
        .await?;
    while serving.join_next().await.is_some() {}
    Ok(())
}

/// What ended the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Input,
    Signal,
}
