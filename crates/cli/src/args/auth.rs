//! The flags that say who may connect, shared by every command that listens.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use turnlane_rpc::auth::{AuthMode, AuthOptions};

/// Who may connect; for every command that listens.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Authentication (websockets)")]
pub(crate) struct AuthArgs {
    /// What a client must show; `none` is for loopback only
    #[arg(long = "ws-auth", value_enum, value_name = "MODE")]
    auth: Option<AuthModeArg>,

    /// A file with the capability token in one line, readable by its owner only
    #[arg(long = "ws-token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The SHA-256 of the capability token, in hex
    #[arg(long = "ws-token-sha256", value_name = "HEX")]
    token_sha256: Option<String>,

    /// A file with the secret that signs bearer tokens (HS256)
    #[arg(long = "ws-shared-secret-file", value_name = "FILE")]
    shared_secret_file: Option<PathBuf>,

    /// The issuer a signed token must name
    #[arg(long = "ws-issuer", value_name = "TEXT")]
    issuer: Option<String>,

    /// The audience a signed token must name
    #[arg(long = "ws-audience", value_name = "TEXT")]
    audience: Option<String>,

    /// How far the clock of a token's maker may be off
    #[arg(long = "ws-max-clock-skew-seconds", value_name = "N")]
    max_clock_skew_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthModeArg {
    CapabilityToken,
    SignedBearerToken,
    None,
}

impl AuthArgs {
    pub(crate) fn options(&self) -> AuthOptions {
        AuthOptions {
            mode: self.auth.map(|mode| match mode {
                AuthModeArg::CapabilityToken => AuthMode::CapabilityToken,
                AuthModeArg::SignedBearerToken => AuthMode::SignedBearerToken,
                AuthModeArg::None => AuthMode::None,
            }),
            token_file: self.token_file.clone(),
            token_sha256: self.token_sha256.clone(),
            shared_secret_file: self.shared_secret_file.clone(),
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            clock_skew: self.max_clock_skew_seconds.map(Duration::from_secs),
        }
    }
}
