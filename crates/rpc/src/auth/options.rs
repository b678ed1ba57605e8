//! The `--ws-*` flags, shared by every command that listens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    AuthError, CLOCK_SKEW_DEFAULT, CapabilityToken, SignedBearerToken, WsAuth, ensure_token_file,
    read_token_file,
};

/// The values of `--ws-auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// `capability-token`
    CapabilityToken,
    /// `signed-bearer-token`
    SignedBearerToken,
    /// `none`
    None,
}

impl AuthMode {
    /// As written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CapabilityToken => "capability-token",
            Self::SignedBearerToken => "signed-bearer-token",
            Self::None => "none",
        }
    }
}

/// What the command line said about auth.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// `--ws-auth`; a capability token when absent.
    pub mode: Option<AuthMode>,
    /// `--ws-token-file`
    pub token_file: Option<PathBuf>,
    /// `--ws-token-sha256`
    pub token_sha256: Option<String>,
    /// `--ws-shared-secret-file`
    pub shared_secret_file: Option<PathBuf>,
    /// `--ws-issuer`
    pub issuer: Option<String>,
    /// `--ws-audience`
    pub audience: Option<String>,
    /// `--ws-max-clock-skew-seconds`
    pub clock_skew: Option<Duration>,
}

impl AuthOptions {
    /// Whether the token will be the one in the default file.
    pub fn names_no_token(&self) -> bool {
        matches!(self.mode, None | Some(AuthMode::CapabilityToken))
            && self.token_file.is_none()
            && self.token_sha256.is_none()
    }

    /// Reads what the flags name. Without a token flag the token is in `default_token_file`, which
    /// is made if it does not exist; a file that was named must exist.
    pub fn load(&self, default_token_file: &Path) -> Result<WsAuth, AuthError> {
        let signed_flags = self.shared_secret_file.is_some()
            || self.issuer.is_some()
            || self.audience.is_some()
            || self.clock_skew.is_some();
        let token_flags = self.token_file.is_some() || self.token_sha256.is_some();
        match self.mode.unwrap_or(AuthMode::CapabilityToken) {
            AuthMode::CapabilityToken if signed_flags => Err(AuthError::Usage(
                "--ws-shared-secret-file, --ws-issuer, --ws-audience and \
                 --ws-max-clock-skew-seconds need --ws-auth signed-bearer-token",
            )),
            AuthMode::CapabilityToken => self
                .capability_token(default_token_file)
                .map(WsAuth::CapabilityToken),
            AuthMode::SignedBearerToken if token_flags => Err(AuthError::Usage(
                "--ws-token-file and --ws-token-sha256 need --ws-auth capability-token",
            )),
            AuthMode::SignedBearerToken => {
                self.signed_bearer_token().map(WsAuth::SignedBearerToken)
            }
            AuthMode::None if signed_flags || token_flags => Err(AuthError::Usage(
                "--ws-auth none takes no token and no shared secret",
            )),
            AuthMode::None => Ok(WsAuth::None),
        }
    }

    fn capability_token(&self, default_token_file: &Path) -> Result<CapabilityToken, AuthError> {
        match (&self.token_file, &self.token_sha256) {
            (Some(_), Some(_)) => Err(AuthError::Usage(
                "--ws-token-file and --ws-token-sha256 exclude each other",
            )),
            (Some(file), None) => CapabilityToken::new(&read_token_file(file)?),
            (None, Some(hex)) => CapabilityToken::from_sha256_hex(hex),
            (None, None) => CapabilityToken::new(&ensure_token_file(default_token_file)?),
        }
    }

    fn signed_bearer_token(&self) -> Result<SignedBearerToken, AuthError> {
        let file = self.shared_secret_file.as_deref().ok_or(AuthError::Usage(
            "--ws-auth signed-bearer-token needs --ws-shared-secret-file",
        ))?;
        let mut signed = SignedBearerToken::new(read_token_file(file)?)?
            .clock_skew(self.clock_skew.unwrap_or(CLOCK_SKEW_DEFAULT));
        if let Some(issuer) = &self.issuer {
            signed = signed.issuer(issuer);
        }
        if let Some(audience) = &self.audience {
            signed = signed.audience(audience);
        }
        Ok(signed)
    }
}
