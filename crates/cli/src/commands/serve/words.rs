//! What a daemon says to people.
//!
//! The invariant here: one line each, what happened first and what to do about it second; a token is
//! named by its file and never shown.

use std::path::Path;
use std::time::Duration;

use turnlane_rpc::auth::{AuthMode, AuthOptions};
use turnlane_rpc::listen::ListenUrl;
use turnlane_store::Census;

use super::record::Other;
use crate::shown::text::counted;
use crate::shown::time::utc;

/// What clients of the websocket show.
pub(super) fn token(auth: &AuthOptions, usual: &Path) -> String {
    match auth.mode.unwrap_or(AuthMode::CapabilityToken) {
        AuthMode::None => {
            "no token is asked for: every user of this machine may connect".to_owned()
        }
        AuthMode::SignedBearerToken => match &auth.shared_secret_file {
            Some(file) => format!("tokens are signed with the secret in {}", file.display()),
            None => "tokens are signed".to_owned(),
        },
        AuthMode::CapabilityToken => match (&auth.token_file, &auth.token_sha256) {
            (Some(file), _) => format!("the token is in {}", file.display()),
            (None, Some(_)) => "the token is the one whose SHA-256 was given".to_owned(),
            (None, None) => format!("the token is in {}", usual.display()),
        },
    }
}

/// Everything that a crash left is decided, and clients are served.
pub(super) fn ready(census: &Census) -> String {
    let Census { rows, held, .. } = census;
    let lanes = census.queued + census.waiting + census.paused + held;
    let waits = match rows {
        0 => "nothing is queued".to_owned(),
        1 => "1 turn is queued".to_owned(),
        rows => {
            let lanes = usize::try_from(lanes).unwrap_or(usize::MAX);
            format!("{rows} turns are queued in {}", counted(lanes, "thread"))
        }
    };
    match held {
        0 => format!("ready; {waits}"),
        1 => format!("ready; {waits}; 1 thread is held by a failed turn"),
        held => format!("ready; {waits}; {held} threads are held by failed turns"),
    }
}

/// The first signal came.
pub(super) fn stopping(grace: Duration) -> String {
    let seconds = grace.as_secs_f64();
    format!("stopping; running turns may take {seconds} s more, a second signal interrupts them")
}

/// Somebody else is the daemon of this home.
pub(super) fn served(socket: &Path, other: &Other) -> String {
    let socket = socket.display();
    let Some(pid) = other.pid else {
        return format!("{socket} is about to be served by another process; try again");
    };
    let Some(since_ms) = other.since_ms else {
        return format!(
            "{socket} is served by process {pid}, another server of this home; stop it first"
        );
    };
    let since = utc(since_ms.div_euclid(1_000));
    let mut places = vec![socket.to_string()];
    places.extend(other.urls.iter().cloned());
    let places = places.join(" and ");
    format!(
        "process {pid} serves this home since {since}, on {places}; \
         commands use it by themselves, `turnlane serve stop` stops it"
    )
}

/// An address cannot be listened on.
pub(super) fn unbound(url: &ListenUrl, error: anyhow::Error) -> anyhow::Error {
    let in_use = error.chain().any(|cause| {
        let system = cause.downcast_ref::<std::io::Error>();
        system.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
    });
    match url {
        ListenUrl::WebSocket(addr) if in_use => anyhow::anyhow!(
            "another program listens on {addr}; choose another port, or let one be picked with \
             --listen ws://{}:0",
            addr.ip()
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_and_what_is_held_is_said_in_one_line() {
        let none = Census::default();
        assert_eq!(ready(&none), "ready; nothing is queued");
        let some = Census {
            queued: 2,
            held: 1,
            rows: 7,
            ..none
        };
        assert_eq!(
            ready(&some),
            "ready; 7 turns are queued in 3 threads; 1 thread is held by a failed turn"
        );
    }
}
