//! JSON Web Tokens signed with HS256 (RFC 7515, 7519), and nothing more of that family.
//!
//! Written by hand because it is one algorithm and four claims; a library's choice of algorithms
//! is the part that goes wrong. The signature is checked before anything of the payload is read.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;

use super::{AuthError, Clock, Secret};

/// A shared secret is at least as long as the hash (RFC 7518 section 3.2).
pub const SHARED_SECRET_BYTES_MIN: usize = 32;

/// How far the clocks of the two sides may differ unless told otherwise.
pub const CLOCK_SKEW_DEFAULT: Duration = Duration::from_secs(30);

/// What a signed bearer token must satisfy.
#[derive(Clone)]
pub struct SignedBearerToken {
    secret: Secret,
    issuer: Option<String>,
    audience: Option<String>,
    clock_skew: Duration,
    clock: Clock,
}

impl SignedBearerToken {
    /// Accepts tokens signed with `secret`, from any issuer for any audience.
    pub fn new(secret: Secret) -> Result<Self, AuthError> {
        let bytes = secret.expose().len();
        if bytes < SHARED_SECRET_BYTES_MIN {
            return Err(AuthError::SecretTooShort { bytes });
        }
        Ok(Self {
            secret,
            issuer: None,
            audience: None,
            clock_skew: CLOCK_SKEW_DEFAULT,
            clock: Clock::system(),
        })
    }

    /// Accepts only tokens whose `iss` is this.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Accepts only tokens whose `aud` is or contains this.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Replaces [`CLOCK_SKEW_DEFAULT`].
    #[must_use]
    pub fn clock_skew(mut self, clock_skew: Duration) -> Self {
        self.clock_skew = clock_skew;
        self
    }

    /// Replaces the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Whether `token` is good now; the error says why not, without quoting it.
    pub(super) fn check(&self, token: &str) -> Result<(), &'static str> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("not a signed token");
        };
        let decoded: Header = decode(header).ok_or("unreadable header")?;
        if decoded.alg != "HS256" {
            return Err("algorithm is not HS256");
        }
        if decoded.crit.is_some() {
            // Extensions its maker insists on; we know none (RFC 7515 section 4.1.11).
            return Err("critical extensions are not supported");
        }
        self.check_signature(&token[..header.len() + 1 + payload.len()], signature)?;
        self.check_claims(&decode(payload).ok_or("unreadable claims")?)
    }

    fn check_signature(&self, signed: &str, signature: &str) -> Result<(), &'static str> {
        let signature = BASE64_URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| "unreadable signature")?;
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose())
            .map_err(|_| "unusable shared secret")?;
        mac.update(signed.as_bytes());
        // Compares in constant time.
        mac.verify_slice(&signature).map_err(|_| "wrong signature")
    }

    fn check_claims(&self, claims: &Claims) -> Result<(), &'static str> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact for the next 285 million years"
        )]
        let now = self.clock.unix_seconds() as f64;
        let skew = self.clock_skew.as_secs_f64();
        if now >= claims.exp + skew {
            return Err("expired");
        }
        if claims.nbf.is_some_and(|nbf| now < nbf - skew) {
            return Err("not valid yet");
        }
        if self.issuer.is_some() && self.issuer != claims.iss {
            return Err("wrong issuer");
        }
        let wanted = self.audience.as_deref();
        if wanted.is_some_and(|wanted| !claims.aud.contains(wanted)) {
            return Err("wrong audience");
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    /// Required: a token that never ends cannot be taken back.
    exp: f64,
    nbf: Option<f64>,
    iss: Option<String>,
    #[serde(default)]
    aud: Audience,
}

/// One name or a list of them.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Audience {
    #[default]
    Nobody,
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(name) => name == wanted,
            Self::Many(names) => names.iter().any(|name| name == wanted),
        }
    }
}

fn decode<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&json).ok()
}

impl fmt::Debug for SignedBearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedBearerToken")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("clock_skew", &self.clock_skew)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
