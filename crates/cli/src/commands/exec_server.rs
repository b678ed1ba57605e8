//! `turnlane exec-server`: serve processes and files until told to stop.
//!
//! The first line on standard error names the address, and standard output holds it alone, because
//! scripts wait for either. Everything else that is said comes after. A first signal ends processes
//! gracefully, a second one by force; both exit with 0.

use std::path::Path;

use anyhow::{Context as _, bail};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;
use turnlane_exec_server::server::{DialectChoice, Options, Peer, Server};
use turnlane_process::ProcessService;
use turnlane_rpc::Duplex;
use turnlane_rpc::auth::AuthOptions;
use turnlane_rpc::listen::{ListenUrl, ListenUrlError, Listener};

use crate::args::{DialectArg, ExecServer};
use crate::config::{ExecServerConfig, Layers};
use crate::shown::{Colour, out};
use crate::{home, peers, runtime, signals};

/// The name of the token in our folder.
const TOKEN_FILE: &str = "exec-server.token";

pub(crate) fn run(args: ExecServer, overrides: &[String]) -> anyhow::Result<()> {
    let home = home::open()?;
    let mut config = Layers::new(&home, None, overrides).load()?.exec_server;
    if let Some(dialect) = args.dialect {
        config.dialect = dialect;
    }
    let url = args.listen.or_else(|| config.listen.clone());
    let url = listen_url(url.as_deref().unwrap_or("stdio://"))?;
    let on_stdin_close = if args.exit_on_stdin_close {
        OnStdinClose::Stop
    } else {
        OnStdinClose::Nothing
    };
    let auth = args.auth.options();
    runtime::block_on(serve(url, config, auth, &home, on_stdin_close))?
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnStdinClose {
    Stop,
    Nothing,
}

/// The transports this command has; `off` and a unix socket without a path belong to others.
fn listen_url(given: &str) -> Result<ListenUrl, ListenUrlError> {
    match given.parse()? {
        ListenUrl::Off | ListenUrl::Unix(None) => {
            Err(ListenUrlError::Unsupported(given.to_owned()))
        }
        url => Ok(url),
    }
}

async fn serve(
    url: ListenUrl,
    config: ExecServerConfig,
    auth: AuthOptions,
    home: &Path,
    on_stdin_close: OnStdinClose,
) -> anyhow::Result<()> {
    // Bound first: whoever cannot listen need not start anything.
    let options = options(&config);
    let listener = match url {
        ListenUrl::Stdio => None,
        ListenUrl::WebSocket(addr) => {
            home::make(home)?;
            let token_file = home.join(TOKEN_FILE);
            let told = auth.names_no_token().then(|| token_file.clone());
            let auth = auth.load(&token_file)?;
            let listener = Listener::bind_tcp(addr, auth, options.listen())?;
            Some((listener, told))
        }
        ListenUrl::Unix(Some(path)) => {
            Some((Listener::bind_unix(&path, options.listen()).await?, None))
        }
        ListenUrl::Unix(None) | ListenUrl::Off => bail!("there is nothing to listen on"),
    };
    let service = ProcessService::start(turnlane_process::Options {
        hidden: home::hidden(home, home::codex().as_deref()),
        // A server over pipes makes no home of its own.
        state: home.exists().then(|| home::process_state(home)),
        ..process_options(config)
    })?;
    let listener = listener.map(|(listener, told)| {
        let filter = peers::refuse_confined(service.clone());
        (listener.refuse_peers(filter), told)
    });
    let server = Server::new(service, options);
    let stop = CancellationToken::new();
    let signals = signals::stop_by_signals(stop.clone(), signals::Hangup::Ends)?;
    if on_stdin_close == OnStdinClose::Stop && listener.is_some() {
        tokio::spawn(stop_by_stdin(stop.clone()));
    }
    match listener {
        None => {
            tokio::select! {
                () = server.serve(Duplex::stdio(), Peer::Stdio) => {}
                () = stop.cancelled() => {}
            }
        }
        Some((listener, token_file)) => {
            announce(&listener, token_file.as_deref())?;
            server.run_listener(listener, stop.clone()).await;
        }
    }
    let stopping = server.stop();
    tokio::pin!(stopping);
    tokio::select! {
        () = &mut stopping => {}
        // The second signal.
        () = signals.hurry.cancelled() => {
            tokio::join!(server.stop(), stopping);
        }
    }
    Ok(())
}

fn options(config: &ExecServerConfig) -> Options {
    Options {
        dialect: match config.dialect {
            DialectArg::Auto => DialectChoice::Auto,
            DialectArg::V0 => DialectChoice::V0,
            DialectArg::Process => DialectChoice::Process,
        },
        processes_per_connection_max: config.max_processes_per_connection,
        allow_direct_exec: config.allow_direct_exec,
        allow_prepared_exec: config.allow_prepared_exec,
        detached_session_ttl: config.detached_session_ttl,
        connections_max: config.max_connections,
        message_bytes_max: config.max_message_bytes,
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        ..Options::default()
    }
}

fn process_options(config: ExecServerConfig) -> turnlane_process::Options {
    turnlane_process::Options {
        containment: config.containment,
        cgroup_root: config.cgroup_root,
        retained_output_bytes_per_process: config.retained_output_bytes_per_process,
        shutdown_grace: config.shutdown_grace_period,
        env_pass: config.env_pass,
        local_sockets: config.local_sockets,
        ..turnlane_process::Options::default()
    }
}

/// Tells where we listen: for people and scripts on standard error, alone on standard output. The
/// token's file is named, the token is not.
fn announce(listener: &Listener, token_file: Option<&Path>) -> anyhow::Result<()> {
    let url = listener.bound();
    let token = token_file.map_or_else(String::new, |path| {
        format!("clients need the token in {}\n", path.display())
    });
    let said = format!("turnlane-exec-server listening on {url}\n{token}");
    out::try_tell(&said, Colour::Off).context("cannot write to standard error")?;
    out::print(&format!("{url}\n"), Colour::Off)
}

/// Reads standard input away and stops at its end.
async fn stop_by_stdin(stop: CancellationToken) {
    let mut input = tokio::io::stdin();
    let mut buffer = [0; 1024];
    while input.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    stop.cancel();
}
