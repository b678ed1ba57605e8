//! The values of `--listen`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenUrl {
    /// `stdio://` or `stdio`: one connection on standard input and output.
    Stdio,
    /// `ws://IP:PORT`; port 0 lets the system pick one.
    WebSocket(SocketAddr),
    /// `unix://PATH`, or `unix://` for the caller's default path.
    Unix(Option<PathBuf>),
    /// `off`: no local transport.
    Off,
}

/// A value of `--listen` that means nothing; the caller corrects the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenUrlError {
    /// Neither of our schemes.
    #[error("unsupported --listen URL `{0}`; expected `stdio://` or `ws://IP:PORT`")]
    Unsupported(String),
    /// A host name, a path, or no port. Names are refused because they may resolve to any address.
    #[error("invalid websocket --listen URL `{0}`; expected `ws://IP:PORT`")]
    InvalidWebSocket(String),
}

impl FromStr for ListenUrl {
    type Err = ListenUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        match url {
            "stdio://" | "stdio" => return Ok(Self::Stdio),
            "off" => return Ok(Self::Off),
            _ => {}
        }
        if let Some(address) = url.strip_prefix("ws://") {
            return address
                .parse()
                .map(Self::WebSocket)
                .map_err(|_| ListenUrlError::InvalidWebSocket(url.to_owned()));
        }
        if let Some(path) = url.strip_prefix("unix://") {
            return Ok(Self::Unix((!path.is_empty()).then(|| PathBuf::from(path))));
        }
        Err(ListenUrlError::Unsupported(url.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_of_the_contract_are_read() {
        let rows = [
            ("stdio", ListenUrl::Stdio),
            ("stdio://", ListenUrl::Stdio),
            ("off", ListenUrl::Off),
            (
                "ws://127.0.0.1:0",
                ListenUrl::WebSocket(([127, 0, 0, 1], 0).into()),
            ),
            (
                "ws://[::1]:4500",
                ListenUrl::WebSocket("[::1]:4500".parse().unwrap()),
            ),
            ("unix://", ListenUrl::Unix(None)),
            (
                "unix:///run/a.sock",
                ListenUrl::Unix(Some("/run/a.sock".into())),
            ),
            ("unix://a.sock", ListenUrl::Unix(Some("a.sock".into()))),
        ];
        for (url, expected) in rows {
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_the_texts_of_the_contract() {
        let refused = |url: &str| url.parse::<ListenUrl>().unwrap_err().to_string();
        for url in [
            "",
            "http://127.0.0.1:1",
            "wss://127.0.0.1:1",
            "127.0.0.1:1",
            "unix:/a",
        ] {
            assert_eq!(
                refused(url),
                format!("unsupported --listen URL `{url}`; expected `stdio://` or `ws://IP:PORT`")
            );
        }
        for url in [
            "ws://",
            "ws://localhost:1",
            "ws://127.0.0.1",
            "ws://127.0.0.1:1/",
            "ws://127.0.0.1:1/path",
            "ws://::1:4500",
            "ws://127.0.0.1:65536",
            "ws://user@127.0.0.1:1",
        ] {
            assert_eq!(
                refused(url),
                format!("invalid websocket --listen URL `{url}`; expected `ws://IP:PORT`")
            );
        }
    }
}
