//! Bytes that are base64 (standard alphabet, padded) on the wire.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes; base64 in JSON. Its `Debug` shows the length only: output may hold secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Blob(pub Bytes);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl<T: Into<Bytes>> From<T> for Blob {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
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
        let bytes = STANDARD.decode(text).map_err(E::custom)?;
        Ok(Blob(bytes.into()))
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
