//! What of a `ws://` or `wss://` URL matters for connecting.
//!
//! The invariant here: what parses can be connected to as far as its writing tells. Whether anybody is
//! there is found out by connecting.

use std::net::IpAddr;

use hyper::Uri;

use super::ConnectError;

const PORT_DEFAULT: u16 = 80;
#[cfg(feature = "tls")]
const TLS_PORT_DEFAULT: u16 = 443;

/// A URL we can connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WsUrl {
    secrecy: Secrecy,
    /// As it goes into the Host header.
    authority: String,
    host: String,
    port: u16,
    /// Path and query.
    target: String,
}

/// Who can read what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// Everybody on the way: `ws://`.
    Open,
    /// The server alone: `wss://`.
    #[cfg(feature = "tls")]
    Tls,
}

impl Secrecy {
    fn port(self) -> u16 {
        match self {
            Self::Open => PORT_DEFAULT,
            #[cfg(feature = "tls")]
            Self::Tls => TLS_PORT_DEFAULT,
        }
    }
}

/// How far away a host is, judged by how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// This machine.
    Loopback,
    /// Anywhere.
    Remote,
}

impl WsUrl {
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        let uri: Uri = url
            .parse()
            .map_err(|_| ConnectError::invalid("not a URL"))?;
        let secrecy = match uri.scheme_str() {
            Some("ws") => Secrecy::Open,
            #[cfg(feature = "tls")]
            Some("wss") => Secrecy::Tls,
            #[cfg(not(feature = "tls"))]
            Some("wss") => {
                return Err(ConnectError::invalid("wss:// needs the feature `tls`"));
            }
            _ => return Err(ConnectError::invalid("expected a ws:// URL")),
        };
        let authority = uri
            .authority()
            .ok_or_else(|| ConnectError::invalid("the URL names no host"))?;
        if authority.as_str().contains('@') {
            return Err(ConnectError::invalid("a URL carries no credentials"));
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(ConnectError::invalid("the URL names no host"));
        }
        let rest = &authority.as_str()[host.len()..];
        if !rest.is_empty() && authority.port_u16().is_none() {
            return Err(ConnectError::invalid("the port is not a number"));
        }
        let unbracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Ok(Self {
            secrecy,
            authority: authority.as_str().to_owned(),
            host: unbracketed.unwrap_or(host).to_owned(),
            port: authority.port_u16().unwrap_or(secrecy.port()),
            target: uri
                .path_and_query()
                .map_or("/", |target| target.as_str())
                .to_owned(),
        })
    }

    /// What HTTP over a unix socket says where nothing is meant.
    pub(super) fn of_unix_socket() -> Self {
        Self {
            secrecy: Secrecy::Open,
            authority: "localhost".to_owned(),
            host: "localhost".to_owned(),
            port: PORT_DEFAULT,
            target: "/".to_owned(),
        }
    }

    pub(super) fn secrecy(&self) -> Secrecy {
        self.secrecy
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) fn reach(&self) -> Reach {
        let loopback = match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        };
        if loopback {
            Reach::Loopback
        } else {
            Reach::Remote
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let rows = [
            (
                "ws://127.0.0.1:4500",
                "127.0.0.1:4500",
                "127.0.0.1",
                4500,
                "/",
            ),
            (
                "ws://localhost/a?b=c",
                "localhost",
                "localhost",
                80,
                "/a?b=c",
            ),
            ("ws://[::1]:9/", "[::1]:9", "::1", 9, "/"),
        ];
        for (url, authority, host, port, target) in rows {
            let expected = WsUrl {
                secrecy: Secrecy::Open,
                authority: authority.to_owned(),
                host: host.to_owned(),
                port,
                target: target.to_owned(),
            };
            assert_eq!(WsUrl::parse(url).unwrap(), expected);
            assert_eq!(expected.reach(), Reach::Loopback);
        }
    }

    #[test]
    fn other_hosts_are_far_away() {
        for url in [
            "ws://192.0.2.1:1",
            "ws://example.com",
            "ws://localhost.example.com",
            "ws://127.0.0.1.example.com",
            "ws://0.0.0.0:1",
            "ws://[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(WsUrl::parse(url).unwrap().reach(), Reach::Remote, "{url}");
        }
    }

    #[test]
    fn what_is_no_ws_url_is_refused() {
        for url in [
            "",
            "127.0.0.1:1",
            "http://127.0.0.1:1",
            "https://127.0.0.1:1",
            "ws://",
            "ws://:80",
            "ws://127.0.0.1:x",
            "ws://127.0.0.1:99999",
            "ws://user:secret@127.0.0.1:1",
            "ws://127.0.0.1:1 /",
        ] {
            let error = WsUrl::parse(url).unwrap_err();
            assert!(
                matches!(error, ConnectError::InvalidEndpoint { .. }),
                "{url}"
            );
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_secret_connection_needs_its_feature() {
        let error = WsUrl::parse("wss://example.com").unwrap_err();
        assert!(error.to_string().contains("the feature `tls`"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_secret_connection_has_a_port_of_its_own() {
        let url = WsUrl::parse("wss://example.com/x").unwrap();
        assert_eq!((url.secrecy(), url.port()), (Secrecy::Tls, 443));
        assert_eq!(WsUrl::parse("wss://example.com:8/").unwrap().port(), 8);
    }
}
