//! The websocket handshake of RFC 6455 section 4, without I/O.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{HeaderMap, Method, Version};
use sha1::{Digest as _, Sha1};

use super::host::only;

/// What every server appends to the key before hashing it.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
pub(crate) const WEBSOCKET_VERSION: &str = "13";
const KEY_BYTES: usize = 16;

/// What a request says about becoming a websocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    /// Nothing: it is plain HTTP.
    NotAsked,
    /// A good handshake, with the value of `Sec-WebSocket-Accept`.
    WebSocket { accept: String },
    /// A version other than 13.
    WrongVersion,
    /// A handshake with something missing.
    Malformed(&'static str),
}

/// Reads the handshake out of a request.
pub(super) fn upgrade(method: &Method, version: Version, headers: &HeaderMap) -> Upgrade {
    if !has_token(headers, UPGRADE, "websocket") {
        return Upgrade::NotAsked;
    }
    if *method != Method::GET || version != Version::HTTP_11 {
        return Upgrade::Malformed("websocket handshakes are GET requests of HTTP/1.1");
    }
    if !has_token(headers, CONNECTION, "upgrade") {
        return Upgrade::Malformed("Connection must contain Upgrade");
    }
    // Nobody reads a body here; what follows the head would be taken for frames.
    let body_length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    if headers.contains_key(TRANSFER_ENCODING) || !matches!(body_length, None | Some(b"0")) {
        return Upgrade::Malformed("websocket handshakes have no body");
    }
    if only(headers, SEC_WEBSOCKET_VERSION) != Some(WEBSOCKET_VERSION) {
        return Upgrade::WrongVersion;
    }
    let key = only(headers, SEC_WEBSOCKET_KEY).unwrap_or_default();
    if !BASE64_STANDARD
        .decode(key)
        .is_ok_and(|key| key.len() == KEY_BYTES)
    {
        return Upgrade::Malformed("Sec-WebSocket-Key must be 16 bytes in base64");
    }
    Upgrade::WebSocket {
        accept: accept_key(key.as_bytes()),
    }
}

/// The `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key`.
pub(crate) fn accept_key(key: &[u8]) -> String {
    let digest = Sha1::new()
        .chain_update(key)
        .chain_update(ACCEPT_SUFFIX)
        .finalize();
    BASE64_STANDARD.encode(digest)
}

/// Whether a comma-separated header contains a word, in any case.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(changed: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let good = [
            ("upgrade", "websocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        for (name, value) in good.iter().chain(changed) {
            headers.insert(*name, value.parse().unwrap());
            if value.is_empty() {
                headers.remove(*name);
            }
        }
        headers
    }

    fn asked(changed: &[(&'static str, &'static str)]) -> Upgrade {
        upgrade(&Method::GET, Version::HTTP_11, &headers(changed))
    }

    // The example of RFC 6455 section 1.3.
    #[test]
    fn a_good_handshake_is_accepted_with_the_hash_of_its_key() {
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
        assert_eq!(asked(&[]), Upgrade::WebSocket { accept });
        assert!(matches!(
            asked(&[("upgrade", "WebSocket")]),
            Upgrade::WebSocket { .. }
        ));
    }

    #[test]
    fn what_is_not_a_handshake_is_told_apart() {
        assert_eq!(asked(&[("upgrade", "")]), Upgrade::NotAsked);
        assert_eq!(asked(&[("upgrade", "h2c")]), Upgrade::NotAsked);
        assert_eq!(
            asked(&[("sec-websocket-version", "8")]),
            Upgrade::WrongVersion
        );
        assert_eq!(
            asked(&[("sec-websocket-version", "")]),
            Upgrade::WrongVersion
        );
        for changed in [
            ("connection", "keep-alive"),
            ("connection", ""),
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("sec-websocket-key", ""),
            ("sec-websocket-key", "dGhlIHNhbXBsZQ=="),
            ("sec-websocket-key", "not base64"),
        ] {
            assert!(
                matches!(asked(&[changed]), Upgrade::Malformed(_)),
                "{changed:?}"
            );
        }
        let post = upgrade(&Method::POST, Version::HTTP_11, &headers(&[]));
        assert!(matches!(post, Upgrade::Malformed(_)));
        let old = upgrade(&Method::GET, Version::HTTP_10, &headers(&[]));
        assert!(matches!(old, Upgrade::Malformed(_)));
    }
}
