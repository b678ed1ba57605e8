//! Where an app-server listens, and who may connect there.

use std::path::Path;

use anyhow::Context as _;
use turnlane_rpc::listen::{ConnectionLimit, ListenUrl, ListenUrlError, Listener, Options};

use crate::args::{AppServer, AuthArgs};
use crate::config::ServerConfig;
use crate::home;
use crate::logging::{self, Weight};

/// The transports that are asked for; standard input and output when none is.
pub(super) fn urls(args: &AppServer) -> anyhow::Result<Vec<ListenUrl>> {
    let mut urls = Vec::new();
    for given in &args.listen {
        let url = given.parse::<ListenUrl>().map_err(|error| match error {
            // The error's own text knows only what every server listens on.
            ListenUrlError::Unsupported(url) => anyhow::anyhow!(
                "unsupported --listen URL `{url}`; \
                 expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`"
            ),
            ListenUrlError::InvalidWebSocket(_) => error.into(),
        })?;
        urls.push(url);
    }
    if args.stdio || urls.is_empty() {
        urls.push(ListenUrl::Stdio);
    }
    if urls.iter().filter(|url| **url == ListenUrl::Stdio).count() > 1 {
        anyhow::bail!("standard input and output can be listened on once");
    }
    Ok(urls)
}

/// Binds every socket, and tells where on standard error.
pub(super) async fn bind(
    urls: &[ListenUrl],
    home: &Path,
    config: &ServerConfig,
    auth: &AuthArgs,
) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for url in urls {
        if let Some(listener) = bind_one(url, home, config, auth).await? {
            say(&format!("listening on {}", listener.bound()))?;
            listeners.push(listener);
        }
    }
    Ok(listeners)
}

/// Binds a socket; none where the URL names none.
pub(in crate::commands) async fn bind_one(
    url: &ListenUrl,
    home: &Path,
    config: &ServerConfig,
    auth: &AuthArgs,
) -> anyhow::Result<Option<Listener>> {
    let options = Options {
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        connections: ConnectionLimit::new(config.max_connections),
        ..Options::default()
    };
    match url {
        ListenUrl::Stdio | ListenUrl::Off => Ok(None),
        ListenUrl::WebSocket(addr) => {
            let auth = auth.options().load(&home::token(home))?;
            Ok(Some(Listener::bind_tcp(*addr, auth, options)?))
        }
        ListenUrl::Unix(path) => {
            let default = home::socket(home);
            if path.is_none()
                && let Some(folder) = default.parent()
            {
                home::make(folder)?;
            }
            let path = path.as_deref().unwrap_or(&default);
            Ok(Some(Listener::bind_unix(path, options).await?))
        }
    }
}

/// A line for people on standard error.
pub(in crate::commands) fn say(line: &str) -> anyhow::Result<()> {
    let written = logging::announce(Weight::Info, line);
    written.context("cannot write to standard error")
}
