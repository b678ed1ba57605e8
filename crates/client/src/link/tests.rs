//! A link against servers that the test plays: in memory, in a shell, behind a socket.

mod calls;
#[cfg(feature = "spawn")]
mod child;
mod connect;
mod ends;
#[cfg(feature = "ws")]
mod reconnect;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::watch;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Duplex, Inbox, Incoming, Notification, Peer, PeerOptions, Request, Responder};
use turnlane_testkit::wait::{DEADLINE, within};

use super::{Call, Inbound, Link, LinkOptions, Repeat};
use crate::endpoint::Endpoint;
use crate::error::{CallError, ConnectError, TransportError};
use crate::limits::Limits;

/// Everything a link told, in order, in words.
#[derive(Clone, Debug, Default)]
struct Heard(watch::Sender<Vec<String>>);

impl Heard {
    fn add(&self, word: String) {
        self.0.send_modify(|words| words.push(word));
    }

    fn words(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// How often `word` begins what was told.
    fn count(&self, word: &str) -> usize {
        let words = self.words();
        words.iter().filter(|told| told.starts_with(word)).count()
    }

    async fn until(&self, word: &str) {
        let mut words = self.0.subscribe();
        let told = |words: &Vec<String>| words.iter().any(|told| told.starts_with(word));
        let _ = within(word, DEADLINE, words.wait_for(told)).await.unwrap();
    }
}

impl Inbound for Heard {
    fn notification(&self, notification: Notification) {
        self.add(format!("told {}", notification.method));
    }

    fn request(&self, request: Request) {
        self.add(format!("asked {}", request.method));
        request.responder.result(&json!({}));
    }

    fn lost(&self) {
        self.add("lost".to_owned());
    }

    fn reconnected(&self, generation: u64) {
        self.add(format!("reconnected {generation}"));
    }

    fn closed(&self, why: &TransportError) {
        self.add(format!("closed: {why}"));
    }
}

fn options(endpoint: Endpoint) -> LinkOptions {
    LinkOptions {
        endpoint,
        reconnect: None,
        limits: Limits::default(),
        client_name: "test".to_owned(),
        client_version: "1.0.0".to_owned(),
        experimental_api: true,
        opt_out: Vec::new(),
        min_version: None,
    }
}

async fn open(options: LinkOptions) -> Result<(Link, Heard), ConnectError> {
    let heard = Heard::default();
    let link = Link::open(options, Arc::new(heard.clone())).await?;
    Ok((link, heard))
}

/// What a link over this endpoint fails with.
async fn refused(options: LinkOptions) -> ConnectError {
    within("a failure", DEADLINE, open(options))
        .await
        .unwrap()
        .unwrap_err()
}

/// The server's end.
struct Far {
    peer: Peer,
    inbox: Inbox,
}

impl Far {
    fn new(duplex: Duplex) -> Self {
        let (peer, inbox) = Peer::start(duplex, PeerOptions::default());
        Self { peer, inbox }
    }

    /// Answers `initialize`, takes `initialized`.
    async fn initialise(&mut self) {
        let (method, _, responder) = self.asked().await;
        assert_eq!(method, "initialize");
        responder.result(&json!({"userAgent": "test/1.2.3"}));
        assert!(matches!(
            self.next().await,
            Some(Incoming::Notification(told)) if told.method == "initialized"
        ));
    }

    async fn next(&mut self) -> Option<Incoming> {
        within("a message", DEADLINE, self.inbox.next())
            .await
            .unwrap()
    }

    async fn asked(&mut self) -> (String, Value, Responder) {
        match self.next().await {
            Some(Incoming::Request(request)) => {
                let params = request.params.parse().unwrap();
                (request.method, params, request.responder)
            }
            other => panic!("no request but {other:?}"),
        }
    }
}

/// A link over memory, with these limits, and the server's end.
async fn pair_with(options: impl FnOnce(&mut LinkOptions)) -> (Link, Heard, Far) {
    let (near, far) = Duplex::memory();
    let mut far = Far::new(far);
    let mut given = self::options(Endpoint::io(near));
    options(&mut given);
    let (opened, ()) = tokio::join!(open(given), far.initialise());
    let (link, heard) = opened.unwrap();
    (link, heard, far)
}

async fn pair() -> (Link, Heard, Far) {
    pair_with(|_| {}).await
}

fn call(method: &str) -> Call {
    Call {
        method: method.to_owned(),
        params: RawValue::from_string("{}".to_owned()).unwrap(),
        timeout: None,
        repeat: Repeat::Never,
    }
}

fn harmless(method: &str) -> Call {
    Call {
        repeat: Repeat::Harmless,
        ..call(method)
    }
}

fn with_params(method: &str, params: &Value) -> Call {
    Call {
        params: to_raw_value(params).unwrap(),
        ..call(method)
    }
}

fn bare(code: i64, message: &str) -> ErrorObject {
    ErrorObject::bare(code, message)
}

/// A call in a task of its own.
fn spawned(link: &Link, call: Call) -> tokio::task::JoinHandle<Result<Box<RawValue>, CallError>> {
    let link = link.clone();
    tokio::spawn(async move { link.call(call).await })
}

const SECOND: Duration = Duration::from_secs(1);
