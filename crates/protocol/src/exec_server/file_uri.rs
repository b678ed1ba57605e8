//! Paths as `file://` URIs, both ways.
//!
//! Only local files: an empty host or `localhost`, percent-encoding, nothing else a URI may hold.
//! Paths are bytes; what is not UTF-8 is percent-encoded.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Why a text names no local file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileUriError {
    /// A path without a scheme.
    #[error("invalid URI: relative URL without a base")]
    NoScheme,
    /// Not `file`.
    #[error("unsupported path URI scheme `{0}`")]
    Scheme(String),
    /// Host, query, fragment, port or credentials, or bad percent-encoding.
    #[error("invalid URI: {0}")]
    Malformed(&'static str),
}

/// The path a URI names.
pub fn to_path(uri: &str) -> Result<PathBuf, FileUriError> {
    let (scheme, rest) = uri.split_once(':').ok_or(FileUriError::NoScheme)?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme {
        return Err(FileUriError::NoScheme);
    }
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(FileUriError::Scheme(scheme.to_owned()));
    }
    if rest.contains(['?', '#']) {
        return Err(FileUriError::Malformed(
            "query and fragment are not allowed",
        ));
    }
    let path = match rest.strip_prefix("//") {
        None => rest,
        Some(with_host) => {
            let slash = with_host.find('/').unwrap_or(with_host.len());
            let (host, path) = with_host.split_at(slash);
            if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
                return Err(FileUriError::Malformed(
                    "the host must be empty or localhost",
                ));
            }
            path
        }
    };
    if !path.starts_with('/') {
        return Err(FileUriError::Malformed("the path must be absolute"));
    }
    let bytes =
        percent_decode(path.as_bytes()).ok_or(FileUriError::Malformed("bad percent-encoding"))?;
    if bytes.contains(&0) {
        return Err(FileUriError::Malformed("nul byte"));
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// The URI of an absolute path.
pub fn from_path(path: &Path) -> String {
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
        if plain {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(*rest.next()?).to_digit(16)?;
        let low = char::from(*rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_files_are_found_and_nothing_else() {
        for (uri, path) in [
            ("file:///w/a%20b", "/w/a b"),
            ("file://localhost/w", "/w"),
            ("FILE:///w", "/w"),
            ("file:/w", "/w"),
        ] {
            assert_eq!(to_path(uri), Ok(PathBuf::from(path)), "{uri}");
        }
        assert_eq!(to_path("/tmp"), Err(FileUriError::NoScheme));
        assert_eq!(to_path("a/b:c"), Err(FileUriError::NoScheme));
        assert_eq!(
            to_path("http://x/y").unwrap_err().to_string(),
            "unsupported path URI scheme `http`"
        );
        for uri in [
            "file://host/w",
            "file://localhost:1/w",
            "file://me@localhost/w",
            "file:///w?q",
            "file:///w#f",
            "file:///w%2",
            "file:///w%00",
            "file:w",
        ] {
            assert!(
                matches!(to_path(uri), Err(FileUriError::Malformed(_))),
                "{uri}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn every_path_comes_back(bytes in proptest::collection::vec(1_u8..=255, 0..40)) {
            let mut path = vec![b'/'];
            path.extend(bytes);
            let path = PathBuf::from(OsString::from_vec(path));
            proptest::prop_assert_eq!(to_path(&from_path(&path)), Ok(path));
        }
    }
}
