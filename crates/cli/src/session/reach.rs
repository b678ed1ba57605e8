//! A server that was named: where it is, what is shown to it, and what is said when that fails.
//!
//! The invariant here: whoever named a server is never served by another one, and no message holds a
//! token. A server that was not named is `linked`'s business.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use turnlane::{ClientBuilder, ConnectError, Endpoint, Limits, Secret};
use turnlane_rpc::auth::read_token_file;

use crate::args::Reach;
use crate::linked::Linked;

/// Names the server where no flag does.
const SERVER_VARIABLE: &str = "TURNLANE_SERVER";
/// Holds the token where no file does.
const TOKEN_VARIABLE: &str = "TURNLANE_TOKEN";
/// How long a server has to answer, which may be far away.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A server that was named.
pub(super) struct Elsewhere {
    /// How it was named, without what may be secret.
    name: String,
    endpoint: Endpoint,
    shows: Shows,
}

/// The address of the server that the arguments or the environment name.
pub(super) fn server(reach: &Reach) -> Option<String> {
    reach.server.clone().or_else(|| variable(SERVER_VARIABLE))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What is shown to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Token,
    Nothing,
}

impl Elsewhere {
    /// The server that the arguments or the environment name, if they do.
    pub(super) fn named(reach: &Reach) -> anyhow::Result<Option<Self>> {
        let Some(url) = server(reach) else {
            if reach.token_file.is_some() {
                bail!(
                    "--token-file is the token of a server that is named\n  \
                     name it with --server URL; that of this home needs none"
                );
            }
            return Ok(None);
        };
        let token = match &reach.token_file {
            Some(path) => Some(read_token_file(path).context("--token-file")?),
            None => variable(TOKEN_VARIABLE).map(Secret::from),
        };
        Self::new(&url, token).map(Some)
    }

    fn new(url: &str, token: Option<Secret>) -> anyhow::Result<Self> {
        let name = url[..url.find(['?', '#']).unwrap_or(url.len())].to_owned();
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !Path::new(path).is_absolute() {
                bail!(
                    "--server {name}: the path must be absolute, as in `unix:/srv/run/app-server.sock`"
                );
            }
            return Ok(Self {
                name,
                endpoint: Endpoint::Unix(path.into()),
                // Whoever may open the socket is let in.
                shows: Shows::Nothing,
            });
        }
        let shows = match token {
            Some(_) => Shows::Token,
            None => Shows::Nothing,
        };
        let endpoint = match Endpoint::ws(url, token) {
            Ok(endpoint) => endpoint,
            Err(ConnectError::InvalidEndpoint { reason }) => bail!(
                "--server {name}: {reason}\n  \
                 name it as `ws://HOST:PORT`, `wss://HOST` or `unix:PATH`; a port of another machine \
                 comes here with `ssh -L 7071:127.0.0.1:7071 HOST`"
            ),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            name,
            endpoint,
            shows,
        })
    }

    /// Connects, or says why not and what to do.
    pub(super) async fn link(self, builder: ClientBuilder) -> anyhow::Result<Linked> {
        let Self {
            name,
            endpoint,
            shows,
        } = self;
        let limits = Limits {
            handshake: HANDSHAKE,
            ..Limits::default()
        };
        let linked = Linked::to(endpoint, builder.limits(limits)).await;
        linked.map_err(|error| in_words(&name, shows, &error))
    }
}

fn in_words(name: &str, shows: Shows, error: &ConnectError) -> anyhow::Error {
    let token = "the token of a daemon is in $TURNLANE_HOME/token on its machine; give it with \
                 --token-file FILE or in TURNLANE_TOKEN";
    // A server of another user takes the connection and hangs up.
    if let Some(owner) = other_owner(name)
        && !matches!(error, ConnectError::Refused { source, .. } if is_nobody(source))
    {
        return anyhow!(
            "{name} serves only the user who owns it (user id {owner}) and refused this user\n  \
             run the command as that user, or connect to its websocket with a token"
        );
    }
    match error {
        ConnectError::Refused { source, .. }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            anyhow!(
                "{name} may not be used: {source}\n  \
                 run the command as the user who owns that socket and its directory"
            )
        }
        ConnectError::Refused { source, .. } if is_nobody(source) => anyhow!(
            "nobody listens at {name}: {source}\n  \
             start a daemon there with `turnlane serve`; `turnlane doctor` on that machine says where \
             one listens"
        ),
        ConnectError::Unauthorized { .. } => match shows {
            Shows::Token => anyhow!("{name} does not know this token\n  {token}"),
            Shows::Nothing => anyhow!("{name} asks for a token\n  {token}"),
        },
        ConnectError::HandshakeTimeout { after } => anyhow!(
            "{name} did not answer within {} s\n  look there with `turnlane doctor`",
            after.as_secs()
        ),
        ConnectError::VersionTooOld { .. } | ConnectError::VersionUnknown { .. } => {
            anyhow!("{name}: {error}\n  update it, or use the commands of its own version")
        }
        ConnectError::HttpStatus { .. }
        | ConnectError::Protocol { .. }
        | ConnectError::Initialize(_)
        | ConnectError::Refused { .. }
        | ConnectError::ServerExited { .. } => anyhow!(
            "what answers at {name} is no app-server of Turnlane or Codex\n  \
             look at the port; `turnlane doctor` on that machine says where its daemon listens"
        ),
        _ => anyhow!("cannot reach {name}: {error}"),
    }
}

/// The owner of a unix socket that is another user's; none where it is ours, or no socket.
fn other_owner(name: &str) -> Option<u32> {
    let path = name.strip_prefix("unix:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let owner = std::fs::metadata(path).ok()?.uid();
    (owner != rustix::process::geteuid().as_raw()).then_some(owner)
}

/// Whether there is nobody at all, rather than somebody who hangs up.
fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, Other, UnexpectedEof};
    let hung_up = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        Other,
        UnexpectedEof,
    ];
    !hung_up.contains(&error.kind())
}
