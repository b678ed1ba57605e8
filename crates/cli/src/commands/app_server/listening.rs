//! Where an app-server listens, and who may connect there.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use turnlane_rpc::listen::{ListenUrl, ListenUrlError, Listener, Options};

use crate::args::{AppServer, AuthArgs};
use crate::config::ServerConfig;
use crate::home;

/// The name of the token in our folder.
const TOKEN_FILE: &str = "token";
/// The default socket in our folder.
const SOCKET: &str = "run/app-server.sock";

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
    let options = Options {
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        ..Options::default()
    };
    let mut listeners = Vec::new();
    for url in urls {
        let listener = match url {
            ListenUrl::Stdio | ListenUrl::Off => continue,
            ListenUrl::WebSocket(addr) => {
                let auth = auth.options().load(&home.join(TOKEN_FILE))?;
                Listener::bind_tcp(*addr, auth, options.clone())?
            }
            ListenUrl::Unix(path) => {
                let default = home.join(SOCKET);
                if path.is_none()
                    && let Some(folder) = default.parent()
                {
                    home::make(folder)?;
                }
                let path = path.as_deref().unwrap_or(&default);
                Listener::bind_unix(path, options.clone()).await?
            }
        };
        let said = format!("listening on {}\n", listener.bound());
        io::stderr()
            .write_all(said.as_bytes())
            .context("cannot write to standard error")?;
        listeners.push(listener);
    }
    Ok(listeners)
}
