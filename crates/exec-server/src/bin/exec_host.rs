//! A server process for tests: something to kill, and a keeper for tests that are no program of
//! their own.
//!
//! `exec_host stdio|ws|unix:PATH [--dialect auto|v0|process] [--ttl-ms N]`.
//! The first line on standard output of the listening kinds is where it listens. SIGTERM stops it in
//! order, a second one by force. `exec_host __keeper` is the keeper. This is not the product's
//! command line; that is `turnlane exec-server`.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use turnlane_exec_server::server::{DialectChoice, Options, Peer, Server};
use turnlane_process::ProcessService;
use turnlane_rpc::Duplex;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::listen::{ListenError, Listener};

#[derive(Default)]
struct Arguments {
    listen: String,
    options: Options,
}

fn main() -> ExitCode {
    turnlane_process::keeper_hook();
    let served = arguments().and_then(|arguments| {
        let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
        let served = runtime.block_on(serve(arguments));
        // Standard input may be read by a thread that never ends.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nobody to tell if this fails too.
            let _ = writeln!(std::io::stderr(), "exec_host: {why}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        let mut value = || given.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--dialect" => {
                arguments.options.dialect = match value()?.as_str() {
                    "auto" => DialectChoice::Auto,
                    "v0" => DialectChoice::V0,
                    "process" => DialectChoice::Process,
                    other => return Err(format!("unknown dialect {other}")),
                };
            }
            "--ttl-ms" => {
                let ms = value()?.parse().map_err(|_| "--ttl-ms needs a number")?;
                arguments.options.detached_session_ttl = Duration::from_millis(ms);
            }
            _ => arguments.listen = word,
        }
    }
    Ok(arguments)
}

async fn serve(arguments: Arguments) -> Result<(), String> {
    let said = |error: &dyn std::error::Error| error.to_string();
    let service = ProcessService::start(turnlane_process::Options::default())
        .map_err(|error| said(&error))?;
    let options = arguments.options;
    let server = Server::new(service, options.clone());
    let listener: Result<Listener, ListenError> = match arguments.listen.as_str() {
        "stdio" => {
            server.serve(Duplex::stdio(), Peer::Stdio).await;
            server.stop().await;
            return Ok(());
        }
        "ws" => Listener::bind_tcp(([127, 0, 0, 1], 0).into(), WsAuth::None, options.listen()),
        other => match other.strip_prefix("unix:") {
            Some(path) => Listener::bind_unix(Path::new(path), options.listen()).await,
            None => return Err("usage: exec_host stdio | ws | unix:PATH".to_owned()),
        },
    };
    let listener = listener.map_err(|error| said(&error))?;
    writeln!(std::io::stdout(), "{}", listener.bound()).map_err(|error| said(&error))?;
    let mut asked = signal(SignalKind::terminate()).map_err(|error| said(&error))?;
    let shutdown = CancellationToken::new();
    let listening = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.run_listener(listener, shutdown).await }
    });
    asked.recv().await;
    shutdown.cancel();
    let mut stopping = std::pin::pin!(server.stop());
    tokio::select! {
        () = &mut stopping => {}
        _ = asked.recv() => {
            // The first one goes on and is told to hurry.
            tokio::join!(stopping, server.stop());
        }
    }
    listening.await.map_err(|error| said(&error))
}
