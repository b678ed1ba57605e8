//! The address of a provider.
//!
//! The invariant here: it is http or https, names a host, and holds neither a user nor a query
//! nor an ending slash, so `/responses` can be put behind it and it can be shown.
//!
//! What is added to the address of a request is in [`resolve`](super::resolve).

use std::fmt;
use std::net::IpAddr;

use http::Uri;

/// The address of a provider, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: String,
    host: String,
    tls: bool,
}

impl BaseUrl {
    /// Checks an address; the error says what is wrong without repeating it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim().trim_end_matches('/');
        // The parser drops a fragment silently.
        if text.contains(['?', '#']) {
            return Err("must not have a query or fragment; use query_params");
        }
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err("must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user or password; use env_key");
        }
        let host = authority.host();
        let after = &authority.as_str()[host.len()..];
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        if host.is_empty() || !(after.is_empty() || after.strip_prefix(':').is_some_and(is_port)) {
            return Err("names no host, or a port that is none");
        }
        Ok(Self {
            text: text.to_owned(),
            host: host.to_ascii_lowercase(),
            tls,
        })
    }

    /// The address without an ending slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether keys sent there can be read on the way.
    pub fn is_open(&self) -> bool {
        !self.tls && !self.is_loopback()
    }

    /// Whether the address is of this machine, whatever a name server says.
    pub fn is_local(&self) -> bool {
        !self.host.ends_with(".localhost") && self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost"
            || bare.ends_with(".localhost")
            || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_with_a_host_and_nothing_behind_the_path() {
        for (text, kept, open) in [
            ("https://api.example/v1", "https://api.example/v1", false),
            ("http://api.example/v1//", "http://api.example/v1", true),
            (
                "http://LOCALHOST:11434/v1",
                "http://LOCALHOST:11434/v1",
                false,
            ),
            ("http://127.8.0.1", "http://127.8.0.1", false),
            ("http://[::1]:8080/", "http://[::1]:8080", false),
            (
                "http://[2001:db8::1]:8080/",
                "http://[2001:db8::1]:8080",
                true,
            ),
            ("http://localhost.example", "http://localhost.example", true),
            ("HTTPS://api.example", "HTTPS://api.example", false),
        ] {
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!((url.as_str(), url.is_open()), (kept, open), "{text}");
        }
        for text in [
            "",
            "api.example/v1",
            "/v1",
            "ftp://api.example",
            "file:///etc/passwd",
            "https://me:secret@api.example/v1",
            "https://me@api.example",
            "https://api.example/v1?key=1",
            "https://api.example/v1#x",
            "https://api.example:99999/v1",
            "https://api.example:/v1",
            "https://:80",
            "https://exa mple",
            "https://",
        ] {
            let problem = BaseUrl::parse(text).unwrap_err();
            assert!(!problem.contains("secret"), "{text}");
        }
    }
}
