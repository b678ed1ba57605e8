//! `turnlane serve`: the daemon of a home.
//!
//! The invariants here: one daemon serves a home, whoever comes second says who does. Sockets answer
//! from the first moment on, and connections that come before everything is decided that a crash left
//! wait for it. A daemon that was told to stop begins no turn, and ends with success when the last one
//! has.
//!
//! What is said on standard error is for people; results have no place here.

mod control;
mod detach;
mod drain;
mod log_file;
pub(crate) mod record;
mod words;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{ListenError, ListenUrl, Listener};
use turnlane_server::Door;

use crate::args::{Serve, ServeCommand};
use crate::assembly::{Assembly, Kind, OpenStore};
use crate::commands::app_server::listening::{bind_one, say};
use crate::config::{Config, ConfigFiles, Layers};
use crate::signals::Hangup;
use crate::{home, runtime, signals};
use drain::DrainSocket;
use log_file::{LogFile, Terminals};
use record::Record;

/// Where a daemon listens when nobody says it, besides its own socket.
const USUAL: &str = "ws://127.0.0.1:0";

pub(crate) fn run(args: &Serve, overrides: &[String]) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(ServeCommand::Stop(stop)) => return control::stop(stop),
        Some(ServeCommand::Status(status)) => return control::status(status),
        None if args.detach => return detach::start(),
        None => {}
    }
    let home = home::open()?;
    if args.detached {
        // First: from now on no terminal of the starting process can signal this one.
        rustix::process::setsid().context("cannot leave the session of the terminal")?;
    }
    let socket = home::socket(&home);
    home::make(&home)
        .and_then(|()| socket.parent().map_or(Ok(()), home::make))
        .map_err(|error| home::explained(error, &home))?;
    let codex_home = home::codex();
    let layers = Layers::new(&home, codex_home.as_deref(), overrides);
    let files = ConfigFiles::new(layers);
    let config = files.current()?;
    for text in &config.without_effect {
        tracing::warn!("{text}");
    }
    let urls = urls(args, &config.server.listen)?;
    runtime::block_on(serve(args, &urls, &home, codex_home.as_deref(), files))??;
    Ok(ExitCode::SUCCESS)
}

/// Where to listen besides our own socket.
fn urls(args: &Serve, configured: &[String]) -> anyhow::Result<Vec<ListenUrl>> {
    let usual = [USUAL.to_owned()];
    let given = [args.listen.as_slice(), configured, usual.as_slice()];
    let given = given.into_iter().find(|list| !list.is_empty());
    let mut urls = Vec::new();
    for url in given.unwrap_or_default() {
        match url.parse() {
            // Our own socket is there anyway.
            Ok(ListenUrl::Unix(None) | ListenUrl::Off) => {}
            Ok(url @ (ListenUrl::WebSocket(_) | ListenUrl::Unix(Some(_)))) => urls.push(url),
            Ok(ListenUrl::Stdio) | Err(_) => anyhow::bail!(
                "unsupported --listen URL `{url}`; expected `ws://IP:PORT`, `unix://PATH` or `off`"
            ),
        }
    }
    Ok(urls)
}

async fn serve(
    args: &Serve,
    urls: &[ListenUrl],
    home: &Path,
    codex_home: Option<&Path>,
    files: ConfigFiles,
) -> anyhow::Result<()> {
    let config = files.current()?;
    // First: whoever reads an address from us may signal at once, and a socket is ours to remove.
    let stop = CancellationToken::new();
    let signals = signals::stop_by_signals(stop.clone(), hangup(home))?;
    let at_once = signals::stop_at_once(stop.clone())?;
    if args.detached {
        LogFile::keep_bounded(home);
    }
    let listeners = bind(args, urls, home, &config).await?;
    drain::remove_leftovers(home);
    let record = Record::write(home, &listeners);
    let bound: Vec<_> = listeners.iter().map(Listener::bound).collect();
    let door = Door::closed();
    let shut = CancellationToken::new();
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (door, shut) = (door.clone(), shut.clone());
        serving.spawn(async move { door.run_listener(listener, shut).await });
    }
    let endpoint = format!("unix://{}", home::socket(home).display());
    let kind = Kind::Serve {
        endpoint: &endpoint,
    };
    let script = args.script.as_deref();
    let store = OpenStore::open(kind, home)?;
    // After the database is open: who reads an address may rely on it.
    for bound in &bound {
        say(&format!("listening on {bound}"))?;
    }
    if urls
        .iter()
        .any(|url| matches!(url, ListenUrl::WebSocket(_)))
    {
        say(&words::token(&args.auth.options(), &home::token(home)))?;
    }
    let assembly = Assembly::start_with(store, kind, script, home, codex_home, files).await?;
    if let Some(weaker) = assembly.weaker_sandbox() {
        tracing::warn!("{weaker}");
    }
    door.open(assembly.server.clone());
    say(&words::ready(&assembly.census().await?))?;
    if let Some(trouble) = assembly.server.trouble() {
        say(trouble)?;
    }
    if args.detached {
        let bound = bound.iter().map(ToString::to_string).collect();
        detach::tell_ready(bound)?;
    }
    stop.cancelled().await;
    let grace = config.server.shutdown_grace;
    // Before the own socket is given away: the turns that still run can be reached at every moment.
    let drain = DrainSocket::open(&door, home, &config.server, &args.auth).await;
    shut.cancel();
    say(&words::stopping(grace))?;
    let stopped = assembly.stop(grace, &at_once, &signals.hurry).await;
    if let Some(drain) = drain {
        drain.close().await;
    }
    stopped?;
    while serving.join_next().await.is_some() {}
    drop(record);
    say("stopped")
}

/// What the end of a terminal means: nothing to a daemon that was started in one.
fn hangup(home: &Path) -> Hangup {
    let Some(terminals) = Terminals::of_this_process() else {
        return Hangup::Stops;
    };
    let home = home.to_owned();
    Hangup::Detaches(Box::new(move || terminals.leave(&home)))
}

/// Binds our own socket first, which makes us the daemon of this home, and then the others.
async fn bind(
    args: &Serve,
    urls: &[ListenUrl],
    home: &Path,
    config: &Config,
) -> anyhow::Result<Vec<Listener>> {
    let mut waited = false;
    let own = loop {
        let own = bind_one(&ListenUrl::Unix(None), home, &config.server, &args.auth).await;
        let error = match own {
            Ok(own) => break own,
            Err(error) => error,
        };
        let Some(ListenError::AlreadyServed { path }) = error.downcast_ref() else {
            return Err(home::explained(error, home));
        };
        let other = record::other(home, path).await;
        // One that was killed while it started a process holds its lock until that process runs its
        // own program: nobody serves, and soon nobody is in the way.
        if other.pid.is_some() || std::mem::replace(&mut waited, true) {
            anyhow::bail!(words::served(path, &other));
        }
    };
    let mut listeners = Vec::from_iter(own);
    for url in urls {
        let bound = bind_one(url, home, &config.server, &args.auth).await;
        let bound = bound
            .map_err(|error| words::unbound(url, error))
            .map_err(|error| home::explained(error, home))?;
        // A websocket is told first: it is what people look for.
        listeners.splice(0..0, bound);
    }
    Ok(listeners)
}
