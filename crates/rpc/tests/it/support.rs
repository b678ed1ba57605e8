//! A listener that runs, a client that writes HTTP by hand, and one that is not ours.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, http};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;
use turnlane_rpc::auth::{CapabilityToken, Secret, WsAuth};
use turnlane_rpc::listen::{Accepted, Bound, Handle, Listener, Options};

/// No test waits longer for anything.
pub(crate) const WAIT_MAX: Duration = Duration::from_mins(2);

pub(crate) const TOKEN: &str = "tok-3f9c1b-long-enough-recognisable";
pub(crate) const BEARER: &str = "Authorization: Bearer tok-3f9c1b-long-enough-recognisable";

pub(crate) const UPGRADE: &str = "Upgrade: websocket\r\n\
    Connection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// A listener that is being served until this is dropped.
pub(crate) struct Served {
    pub(crate) handle: Handle,
    pub(crate) accepted: mpsc::Receiver<Accepted>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Served {
    pub(crate) fn start(listener: Listener) -> Self {
        let (sender, accepted) = mpsc::channel(64);
        let (handle, shutdown) = (listener.handle(), CancellationToken::new());
        let task = tokio::spawn(listener.run(shutdown.clone(), move |connection| {
            sender.try_send(connection).unwrap();
        }));
        Self {
            handle,
            accepted,
            shutdown,
            task,
        }
    }

    /// On loopback with the capability token.
    pub(crate) fn with_token(options: Options) -> Self {
        let token = CapabilityToken::new(&Secret::from(TOKEN)).unwrap();
        let auth = WsAuth::CapabilityToken(token);
        Self::start(Listener::bind_tcp(loopback(), auth, options).unwrap())
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        match self.handle.bound() {
            Bound::Tcp(addr) => *addr,
            Bound::Unix(path) => panic!("{} is no address", path.display()),
        }
    }

    pub(crate) async fn next(&mut self) -> Accepted {
        within(self.accepted.recv()).await.expect("a connection")
    }

    /// Sends a request line and headers, with our Host unless they have one; reads the answer.
    pub(crate) async fn ask(&self, line: &str, headers: &[&str]) -> Answer {
        let mut lines = vec![format!("{line} HTTP/1.1")];
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            lines.push(format!("Host: {}", self.addr()));
        }
        let given = headers.iter().filter(|header| **header != "Host:");
        lines.extend(given.map(|header| (*header).to_owned()));
        let head = lines.join("\r\n");
        let mut stream = TcpStream::connect(self.addr()).await.unwrap();
        exchange(&mut stream, format!("{head}\r\n\r\n").as_bytes()).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// An HTTP answer, in pieces.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Status and body in one line, as the tables of the contract have them.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.status, self.body)
            .trim_end()
            .to_owned()
    }
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) async fn within<T>(step: impl Future<Output = T>) -> T {
    timeout(WAIT_MAX, step).await.expect("in time")
}

/// Writes, then reads until the end of the connection or of a 101.
pub(crate) async fn exchange(stream: &mut TcpStream, request: &[u8]) -> Answer {
    within(stream.write_all(request)).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if text.starts_with("HTTP/1.1 101 ") && text.contains("\r\n\r\n") {
            break;
        }
        match within(stream.read_buf(&mut bytes)).await {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            result => assert!(result.is_ok(), "{result:?}"),
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// Connects with a client that is not ours: the answer's status and body, or 101.
pub(crate) async fn independent(addr: SocketAddr, headers: &[(&'static str, String)]) -> Answer {
    let mut request = format!("ws://{addr}/").into_client_request().unwrap();
    for (name, value) in headers {
        let value = http::HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(*name, value);
    }
    let connecting = tokio_tungstenite::connect_async(request);
    let (response, body) = match within(connecting).await {
        Ok((_, response)) => (response.map(|_| ()), String::new()),
        Err(tungstenite::Error::Http(response)) => {
            let (parts, body) = response.into_parts();
            let body = String::from_utf8(body.unwrap_or_default()).unwrap();
            (http::Response::from_parts(parts, ()), body)
        }
        Err(error) => panic!("{error}"),
    };
    Answer {
        status: response.status().as_u16(),
        head: format!("{:?}", response.headers()).to_lowercase(),
        body,
    }
}

/// Everything that is logged, as text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Ends a capture when it is dropped.
pub(crate) struct Capture {
    _default: tracing::subscriber::DefaultGuard,
    _second: tracing::Dispatch,
}

impl Log {
    /// Captures what this thread logs; a test on one thread hears every one of its tasks.
    pub(crate) fn capture(level: tracing::Level) -> (Self, Capture) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        // As long as there is only one, a line first met by the thread of another test is asked of
        // that thread's subscriber, which is none, and stays off everywhere.
        let sink = tracing_subscriber::fmt().with_writer(io::sink).finish();
        let capture = Capture {
            _second: tracing::Dispatch::new(sink),
            _default: tracing::subscriber::set_default(subscriber),
        };
        (log, capture)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
