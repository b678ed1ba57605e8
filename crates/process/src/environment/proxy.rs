//! Addresses of proxies without the passwords in them.
//!
//! `http_proxy` and its relatives may hold `scheme://user:password@host:port`. A command needs the
//! address; the password would be the user's secret in an environment that a model reads. The
//! invariant here: nothing in front of the last `@` of a value is left but its scheme. Which variables
//! reach a child at all is decided by `environment`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Suffix of the names of these variables, in any case: `http_proxy`, `ALL_PROXY`,
/// `npm_config_https_proxy`.
const SUFFIX: &[u8] = b"proxy";

/// The value a child gets: of a proxy's variable without user and password, otherwise as it is.
pub(super) fn without_password(name: &OsStr, value: &OsStr) -> OsString {
    let name = name.as_bytes();
    let is_proxy = name
        .len()
        .checked_sub(SUFFIX.len())
        .is_some_and(|start| name[start..].eq_ignore_ascii_case(SUFFIX));
    let bytes = value.as_bytes();
    // The last one: a password may hold an `@` or a `/` that should have been escaped.
    let at = bytes.iter().rposition(|byte| *byte == b'@');
    let Some(at) = at.filter(|_| is_proxy) else {
        return value.to_owned();
    };
    let scheme = bytes[..at]
        .windows(3)
        .position(|part| part == b"://")
        .map_or(0, |start| start + 3);
    OsString::from_vec([&bytes[..scheme], &bytes[at + 1..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_cut_out_of_the_addresses_of_proxies_only() {
        let cases = [
            ("http_proxy", "http://u:p@host:3128", "http://host:3128"),
            ("HTTPS_PROXY", "https://u@host/", "https://host/"),
            (
                "All_Proxy",
                "socks5h://u:p@127.0.0.1:1",
                "socks5h://127.0.0.1:1",
            ),
            ("ftp_proxy", "u:p@host:21", "host:21"),
            ("npm_config_proxy", "http://u:p@host", "http://host"),
            // Characters that should have been escaped.
            ("http_proxy", "http://u:p@q@host", "http://host"),
            ("http_proxy", "http://u:p/q?r#s@host:1", "http://host:1"),
            ("http_proxy", "http://u:a://b@host", "http://host"),
            ("http_proxy", "http://host:3128", "http://host:3128"),
            ("no_proxy", "localhost,.internal", "localhost,.internal"),
            ("EMAIL", "a@b", "a@b"),
            ("proxy", "@", ""),
            ("oxy", "a@b", "a@b"),
        ];
        for (name, value, expected) in cases {
            let passed = without_password(OsStr::new(name), OsStr::new(value));
            assert_eq!(passed, expected, "{name}={value}");
        }
        let odd = OsStr::from_bytes(b"http://\xff:\xfe@h\xff");
        let passed = without_password(OsStr::new("http_proxy"), odd);
        assert_eq!(passed.as_bytes(), b"http://h\xff");
    }
}
