//! What can be wrong with the configuration of auth. All of it ends a start before a socket exists.

use std::io;
use std::path::PathBuf;

use super::{SHARED_SECRET_BYTES_MIN, TOKEN_BYTES_MIN};

/// Why a token or shared secret cannot be used. Never holds one.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Flags that exclude or miss each other; the caller corrects the command line.
    #[error("{0}")]
    Usage(&'static str),

    /// Others on this machine may use the file; the owner closes it.
    #[error(
        "{} can be read or written by others (mode {mode:04o}); run: chmod 600 {}",
        path.display(),
        path.display()
    )]
    OpenToOthers {
        /// The token or secret file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },

    /// Somebody else owns the file and may change it; the operator makes a new one.
    #[error(
        "{} belongs to user {uid}; a token or secret file must belong to you or to root",
        path.display()
    )]
    ForeignOwner {
        /// The token or secret file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },

    /// A pipe, a device, a socket or a directory; the operator names a file.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What was named as a token or secret file.
        path: PathBuf,
    },

    /// The file does not hold one line of visible ASCII characters.
    #[error("{} must hold one line: {reason}", path.display())]
    Malformed {
        /// The token or secret file.
        path: PathBuf,
        /// What it holds instead, without quoting it.
        reason: &'static str,
    },

    /// Short tokens can be guessed.
    #[error(
        "the token has {bytes} bytes and at least {TOKEN_BYTES_MIN} are needed; make one with: \
         openssl rand -hex 32"
    )]
    TokenTooShort {
        /// Its length.
        bytes: usize,
    },

    /// A header carries one word, so no client could show this token.
    #[error(
        "the token must be one word of visible ASCII characters; make one with: \
         openssl rand -hex 32"
    )]
    TokenNotOneWord,

    /// Short secrets can be guessed from one observed token.
    #[error(
        "the shared secret has {bytes} bytes and at least {SHARED_SECRET_BYTES_MIN} are needed; \
         make one with: openssl rand -hex 32"
    )]
    SecretTooShort {
        /// Its length.
        bytes: usize,
    },

    /// Not 64 hexadecimal digits.
    #[error("a SHA-256 is written as 64 hexadecimal digits")]
    InvalidDigest,

    /// The operating system failed; trying later may help.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// A verb: "read", "create".
        doing: &'static str,
        /// The token or secret file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
