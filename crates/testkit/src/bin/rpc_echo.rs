//! A server process that echoes: the peer and its listeners as a program of their own, so that
//! tests can flood it, starve it, kill it and look at its memory.
//!
//! Serves `rpc_echo stdio`, `rpc_echo unix PATH` or `rpc_echo ws`; the last two say where they
//! listen on standard error. `echo` answers its params; `flood {count, bytes}` sends that many
//! notifications before its answer; every other method is unknown.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use turnlane_protocol::envelope::encode_notification;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::listen::{Listener, Options};
use turnlane_rpc::{Duplex, Inbox, Incoming, Outgoing, Peer, PeerOptions, Request};

#[derive(Deserialize)]
struct Flood {
    count: u64,
    bytes: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options = PeerOptions::default();
    let listener = match arguments[..] {
        ["stdio"] => {
            serve(Peer::start(Duplex::stdio(), options).1).await;
            return ExitCode::SUCCESS;
        }
        ["unix", path] => Listener::bind_unix(Path::new(path), Options::default()).await,
        ["ws"] => Listener::bind_tcp(([127, 0, 0, 1], 0).into(), WsAuth::None, Options::default()),
        _ => return failed("usage: rpc_echo stdio | unix PATH | ws"),
    };
    match listener {
        Ok(listener) => listen(listener, options).await,
        Err(error) => return failed(&error.to_string()),
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "how a test learns the address")]
async fn listen(listener: Listener, options: PeerOptions) {
    eprintln!("listening on {}", listener.bound());
    let accepted = move |accepted: turnlane_rpc::listen::Accepted| {
        tokio::spawn(serve(Peer::start(accepted.duplex, options.clone()).1));
    };
    // Ends with the process: whoever started it kills it.
    listener.run(CancellationToken::new(), accepted).await;
}

#[expect(clippy::print_stderr, reason = "how a test learns what is wrong")]
fn failed(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

async fn serve(mut inbox: Inbox) {
    while let Some(message) = inbox.next().await {
        if let Incoming::Request(request) = message {
            answer(inbox.peer(), request);
        }
    }
    inbox.peer().closed().await;
}

fn answer(peer: &Peer, request: Request) {
    let Request {
        method,
        params,
        responder,
    } = request;
    match method.as_str() {
        "echo" => responder.respond(params.parse::<Value>()),
        "flood" => responder.respond(params.parse::<Flood>().map(|Flood { count, bytes }| {
            let text = "x".repeat(bytes);
            for n in 0..count {
                let note = json!({"n": n, "text": text});
                if let Ok(frame) = encode_notification("note", &note, None) {
                    peer.notify(&Outgoing::kept(frame, None));
                }
            }
            json!({})
        })),
        _ => responder.error(&ErrorObject::unknown_method(&method)),
    }
}
