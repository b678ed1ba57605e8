//! Bytes that are base64 (standard alphabet, padded) on the wire.
//!
//! Output is most of what an exec-server says, so this is the vectorised engine where there is one:
//! five times as fast as the portable one when encoding, more when decoding.

use std::fmt;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::GeneralPurposeConfig;
use bytes::Bytes;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
))]
type Base64 = base64::engine::Simd;
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon")
)))]
type Base64 = base64::engine::GeneralPurpose;

static BASE64: LazyLock<Base64> = LazyLock::new(|| {
    let config = GeneralPurposeConfig::new();
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon")
    ))]
    return Base64::standard(config);
    #[cfg(not(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon")
    )))]
    return Base64::new(&base64::alphabet::STANDARD, config);
});

/// Bytes; base64 in JSON. Its `Debug` shows the length only: output may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Blob(pub Bytes);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Blob {
    /// The bytes that a text stands for; the error says which character is wrong and shows nothing
    /// else of it.
    pub fn decode(text: &str) -> Result<Self, base64::DecodeError> {
        BASE64.decode(text).map(Self::from)
    }

    /// How long `bytes` bytes are as base64.
    pub const fn encoded_bytes(bytes: usize) -> usize {
        bytes.div_ceil(3) * 4
    }

    /// Writes `bytes` as base64 to the front of `out`, which must have room for
    /// [`Blob::encoded_bytes`]; how much was written.
    pub fn encode_to(bytes: &[u8], out: &mut [u8]) -> usize {
        let written = BASE64.encode_slice(bytes, out);
        debug_assert!(written.is_ok(), "the caller made room");
        written.unwrap_or(0)
    }
}

impl<T: Into<Bytes>> From<T> for Blob {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Blob {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Blob".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "contentEncoding": "base64"})
    }
}

/// Decodes straight from the frame, without a string between.
struct Text;

impl Visitor<'_> for Text {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a base64 string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Blob, E> {
        Blob::decode(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_padded_base64() {
        let blob = Blob::from(&b"hi\n"[..]);
        let text = serde_json::to_string(&blob).unwrap();
        assert_eq!(text, r#""aGkK""#);
        assert_eq!(serde_json::from_str::<Blob>(&text).unwrap(), blob);
        assert!(serde_json::from_str::<Blob>(r#""a""#).is_err());
        assert_eq!(format!("{blob:?}"), "Blob(3 bytes)");
    }
}
