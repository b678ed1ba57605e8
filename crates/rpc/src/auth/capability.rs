//! One random word that both sides know.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{AuthError, Secret};

/// A shorter token can be guessed by a program that may try as often as it likes. The tokens we make
/// have 43 bytes.
pub const TOKEN_BYTES_MIN: usize = 32;

/// What a capability token must hash to. The token itself is not kept.
#[derive(Clone)]
pub struct CapabilityToken {
    digest: [u8; 32],
}

impl CapabilityToken {
    /// Accepts exactly this token, which must be one word of at least [`TOKEN_BYTES_MIN`] visible
    /// ASCII characters.
    pub fn new(token: &Secret) -> Result<Self, AuthError> {
        let token = token.expose();
        // No client could send such a token: a header carries one word.
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(AuthError::TokenNotOneWord);
        }
        let bytes = token.len();
        if bytes < TOKEN_BYTES_MIN {
            return Err(AuthError::TokenTooShort { bytes });
        }
        Ok(Self {
            digest: Sha256::digest(token).into(),
        })
    }

    /// Accepts the token with this SHA-256, in hexadecimal, so that a server need not know it.
    pub fn from_sha256_hex(hex: &str) -> Result<Self, AuthError> {
        let (pairs, rest) = hex.trim_ascii().as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(AuthError::InvalidDigest);
        }
        let mut digest = [0; 32];
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            let digit = |digit: &u8| char::from(*digit).to_digit(16);
            let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                return Err(AuthError::InvalidDigest);
            };
            *byte = u8::try_from(high * 16 + low).map_err(|_| AuthError::InvalidDigest)?;
        }
        Ok(Self { digest })
    }

    /// Whether `offered` is the token. Digests are compared, so the time taken tells neither how
    /// much of it was right nor how long the right one is.
    pub(super) fn accepts(&self, offered: &[u8]) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        self.digest.ct_eq(&offered).into()
    }
}

impl fmt::Debug for CapabilityToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapabilityToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The SHA-256 of "abc", from the appendix of FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_enough_to_know_the_token() {
        let token = CapabilityToken::from_sha256_hex(&format!("{}\n", ABC.to_uppercase())).unwrap();
        assert!(token.accepts(b"abc"));
        for wrong in [&b""[..], b"ab", b"abd", b"abcabc", ABC.as_bytes()] {
            assert!(!token.accepts(wrong));
        }
    }

    #[test]
    fn a_short_token_and_one_with_white_space_are_refused() {
        let just = "x".repeat(TOKEN_BYTES_MIN);
        assert!(CapabilityToken::new(&just.into()).is_ok());
        for short in ["", "a", &"x".repeat(TOKEN_BYTES_MIN - 1)] {
            let error = CapabilityToken::new(&short.into()).unwrap_err();
            assert!(matches!(error, AuthError::TokenTooShort { .. }), "{error}");
            assert!(error.to_string().contains("openssl rand"), "{error}");
        }
        for words in [
            "two words and more than enough bytes",
            "a\tb\nc".repeat(9).as_str(),
        ] {
            let error = CapabilityToken::new(&words.into()).unwrap_err();
            assert!(matches!(error, AuthError::TokenNotOneWord), "{error}");
        }
    }

    #[test]
    fn other_spellings_of_a_digest_are_refused() {
        for wrong in [
            "",
            "ba78",
            &ABC[1..],
            &format!("{ABC}00"),
            &ABC.replace('a', "g"),
        ] {
            let refused = CapabilityToken::from_sha256_hex(wrong);
            assert!(matches!(refused, Err(AuthError::InvalidDigest)), "{wrong}");
        }
    }
}
