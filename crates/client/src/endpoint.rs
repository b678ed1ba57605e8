//! Where a server is: a command to run, a socket, a URL, or a connection that somebody made.
//!
//! The invariant here: an endpoint is plain data; nothing is opened, started or resolved before
//! [`crate::ClientBuilder::connect`]. What makes no sense is refused before any packet.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use turnlane_rpc::Duplex;
pub use turnlane_rpc::auth::Secret;

use crate::error::ConnectError;

/// The daemon's socket in `$TURNLANE_HOME`.
#[cfg(feature = "ws")]
const SOCKET: &str = "run/app-server.sock";

/// Where a server is.
#[derive(Debug)]
#[non_exhaustive]
pub enum Endpoint {
    /// Run a command and speak JSON lines on its standard input and output.
    #[cfg(feature = "spawn")]
    Spawn(SpawnSpec),
    /// A websocket over a unix socket, as the daemon listens.
    #[cfg(feature = "ws")]
    Unix(PathBuf),
    /// A `ws://` URL, or a `wss://` one with the feature `tls`.
    #[cfg(feature = "ws")]
    WebSocket(WsSpec),
    /// A connection that somebody made: an embedded server, a test.
    Io(IoSpec),
}

/// A server to be run as a child.
///
/// A program has to do nothing for it, and the child ends with its client: when the last handle is
/// dropped, when the runtime goes, when the program dies. A program that calls
/// `turnlane_process::keeper_hook` first in its `main` gets more: then also those descendants of the
/// server end that left its process group.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The program, found in `PATH`.
    pub program: OsString,
    /// Its arguments, exactly as given.
    pub args: Vec<OsString>,
    /// Its working directory; ours when none is given.
    pub cwd: Option<PathBuf>,
    /// Its environment.
    pub env: Env,
    /// Whether it is started again after a crash.
    pub supervision: Supervision,
}

/// The environment of a child. The few names that carry credentials of a Codex host
/// (`OPENAI_IDENTITY_TOKEN_FILE` and its like) are passed to no child.
#[derive(Clone)]
pub enum Env {
    /// Ours, with these on top.
    InheritWith(Vec<(OsString, OsString)>),
    /// Nothing but these.
    Only(Vec<(OsString, OsString)>),
}

/// Whether a spawned server is started again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Supervision {
    /// Its end is the end of the client.
    Never,
    /// After a signal or an exit code that is not 0, with growing pauses; the budget is full again
    /// when it was up for 30 s.
    OnCrash {
        /// How often.
        max_restarts: u32,
        /// The first pause.
        base: Duration,
        /// The longest pause.
        max: Duration,
    },
}

impl Supervision {
    /// Three restarts, 200 ms growing to 5 s.
    pub fn on_crash() -> Self {
        Self::OnCrash {
            max_restarts: 3,
            base: Duration::from_millis(200),
            max: Duration::from_secs(5),
        }
    }
}

/// A websocket to connect to.
#[derive(Clone, Debug)]
pub struct WsSpec {
    /// `ws://host:port/path`; `wss://` needs the feature `tls`.
    pub url: String,
    /// Sent as `Authorization: Bearer`; to loopback, or over `wss://`.
    pub token: Option<Secret>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
}

/// A connection that can be used once.
#[derive(Debug)]
pub struct IoSpec(pub(crate) Mutex<Option<Duplex>>);

impl Endpoint {
    /// `codex app-server`.
    #[cfg(feature = "spawn")]
    pub fn codex() -> Self {
        Self::command("codex", &["app-server"])
    }

    /// `turnlane app-server`.
    #[cfg(feature = "spawn")]
    pub fn turnlane() -> Self {
        Self::command("turnlane", &["app-server"])
    }

    /// Any app-server command, with its arguments exactly as given.
    #[cfg(feature = "spawn")]
    pub fn command(program: impl Into<OsString>, args: &[&str]) -> Self {
        Self::Spawn(SpawnSpec {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            cwd: None,
            env: Env::InheritWith(Vec::new()),
            supervision: Supervision::Never,
        })
    }

    /// The socket of the running daemon: `run/app-server.sock` in `$TURNLANE_HOME`, which is
    /// `.turnlane` in the home of the user unless set. Without an absolute home there is none, and
    /// connecting says so.
    #[cfg(feature = "ws")]
    pub fn daemon() -> Self {
        let home = home_of(|name| std::env::var_os(name));
        Self::Unix(home.map(|home| home.join(SOCKET)).unwrap_or_default())
    }

    /// A websocket; a token is only sent to loopback, or over `wss://`. What makes no sense is
    /// refused here, before any packet.
    #[cfg(feature = "ws")]
    pub fn ws(url: &str, token: Option<Secret>) -> Result<Self, ConnectError> {
        let spec = WsSpec {
            url: url.to_owned(),
            token,
            headers: Vec::new(),
        };
        crate::link::dial::check_ws(&spec)?;
        Ok(Self::WebSocket(spec))
    }

    /// A connection that somebody made.
    pub fn io(duplex: Duplex) -> Self {
        Self::Io(IoSpec(Mutex::new(Some(duplex))))
    }

    /// How it is reached, in words, without anything secret: queries of URLs may be.
    pub(crate) fn words(&self) -> String {
        match self {
            #[cfg(feature = "spawn")]
            Self::Spawn(spec) => format!("spawn {}", spec.program.display()),
            #[cfg(feature = "ws")]
            Self::Unix(path) => format!("unix {}", path.display()),
            #[cfg(feature = "ws")]
            Self::WebSocket(spec) => {
                let end = spec.url.find(['?', '#']).unwrap_or(spec.url.len());
                spec.url[..end].to_owned()
            }
            Self::Io(_) => "io".to_owned(),
        }
    }
}

/// The folder `$TURNLANE_HOME` names, else `.turnlane` in the user's home, by the rules of the
/// `turnlane` program.
#[cfg(feature = "ws")]
fn home_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    match set("TURNLANE_HOME") {
        Some(home) => home.is_absolute().then_some(home),
        None => set("HOME").map(|home| home.join(".turnlane")),
    }
}

impl IoSpec {
    /// The connection, once.
    pub(crate) fn take(&self) -> Result<Duplex, ConnectError> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| ConnectError::InvalidEndpoint {
            reason: "this connection was used before".to_owned(),
        })
    }
}

impl std::fmt::Debug for Env {
    /// Names only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, list) = match self {
            Self::InheritWith(list) => ("InheritWith", list),
            Self::Only(list) => ("Only", list),
        };
        let names: Vec<_> = list.iter().map(|(name, _)| name).collect();
        f.debug_tuple(word).field(&names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "ws")]
    #[test]
    fn the_daemon_is_where_the_program_listens() {
        let rows = [
            (Some("/t"), Some("/h"), Some("/t")),
            (None, Some("/h"), Some("/h/.turnlane")),
            (Some(""), Some("/h"), Some("/h/.turnlane")),
            (Some("relative"), Some("/h"), None),
            (None, Some(""), None),
            (None, None, None),
        ];
        for (own, home, expected) in rows {
            let variable = |name: &str| match name {
                "TURNLANE_HOME" => own.map(OsString::from),
                _ => home.map(OsString::from),
            };
            assert_eq!(
                home_of(variable),
                expected.map(PathBuf::from),
                "{own:?} {home:?}"
            );
        }
    }

    #[test]
    fn words_and_debug_show_no_secret() {
        let (near, _far) = Duplex::memory();
        assert_eq!(Endpoint::io(near).words(), "io");
        #[cfg(feature = "spawn")]
        {
            let endpoint = Endpoint::Spawn(SpawnSpec {
                program: "codex".into(),
                args: Vec::new(),
                cwd: None,
                env: Env::Only(vec![("NAME".into(), "secret".into())]),
                supervision: Supervision::Never,
            });
            assert_eq!(endpoint.words(), "spawn codex");
            let shown = format!("{endpoint:?}");
            assert!(
                shown.contains("NAME") && !shown.contains("secret"),
                "{shown}"
            );
        }
        #[cfg(feature = "ws")]
        {
            let url = "ws://127.0.0.1:1/x?token=secret";
            let endpoint = Endpoint::ws(url, Some("secret".into())).unwrap();
            assert_eq!(endpoint.words(), "ws://127.0.0.1:1/x");
        }
    }
}
