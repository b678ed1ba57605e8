//! Who may open a websocket: tokens, where they come from and how they are compared.
//!
//! The invariant here: a token or shared secret is never shown. It lives in a [`Secret`], whose
//! `Debug` is a placeholder; a capability token is kept only as its SHA-256; errors and log lines
//! name files and reasons, never what was offered or expected.
//!
//! Two kinds of token exist. A *capability token* is one random word both sides know, made by
//! [`ensure_token_file`] on the first start. A *signed bearer token* is an HS256 JWT made by
//! whoever holds the shared secret; it expires.
//!
//! What a request must look like besides its token (Host, Origin, upgrade) is decided in
//! [`crate::listen`]; where the files are is decided by the caller.

mod bearer;
mod capability;
mod clock;
mod error;
mod options;
mod secret;
mod signed;
mod token_file;

pub use capability::{CapabilityToken, TOKEN_BYTES_MIN};
pub use clock::Clock;
pub use error::AuthError;
pub use options::{AuthMode, AuthOptions};
pub use secret::Secret;
pub use signed::{CLOCK_SKEW_DEFAULT, SHARED_SECRET_BYTES_MIN, SignedBearerToken};
pub use token_file::{ensure_token_file, read_token_file};

pub(crate) use bearer::{SUBPROTOCOL, admit, subprotocols};

/// How a websocket listener knows its clients.
#[derive(Clone, Debug)]
pub enum WsAuth {
    /// One random token both sides know.
    CapabilityToken(CapabilityToken),
    /// An HS256 JWT that expires.
    SignedBearerToken(SignedBearerToken),
    /// Anybody who can reach the address; a listener takes this on loopback only.
    None,
}

impl WsAuth {
    /// Which kind this is, without what it holds.
    pub fn mode(&self) -> AuthMode {
        match self {
            Self::CapabilityToken(_) => AuthMode::CapabilityToken,
            Self::SignedBearerToken(_) => AuthMode::SignedBearerToken,
            Self::None => AuthMode::None,
        }
    }
}
