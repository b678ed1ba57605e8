//! A model that costs nothing: it reads no request, and says the same words to each.
//!
//! The invariant here: a request is counted when all of it has come, and answered at once unless the
//! model is held. The test kit's model reads and keeps every request, which in a thread of a thousand
//! turns costs more than the turns.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::now;

/// A model on a loopback port, until it is dropped.
#[derive(Debug)]
pub struct InstantModel {
    address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// How many requests have come, and when the last one did.
    asked: watch::Sender<(usize, Option<Instant>)>,
    held: watch::Sender<bool>,
}

impl InstantModel {
    /// Starts it; it answers at once.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            asked: watch::Sender::new((0, None)),
            held: watch::Sender::new(false),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            serving,
        })
    }

    /// Where a provider finds it.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// From now on no request is answered.
    pub fn hold(&self) {
        self.state.held.send_replace(true);
    }

    /// Answers those that wait, and from now on all.
    pub fn release(&self) {
        self.state.held.send_replace(false);
    }

    /// How many requests have come.
    pub fn asked(&self) -> usize {
        self.state.asked.borrow().0
    }

    /// Waits until so many requests have come; when the last one did.
    pub async fn asked_by(&self, requests: usize) -> anyhow::Result<Instant> {
        let mut asked = self.state.asked.subscribe();
        let (_, at) = *asked.wait_for(|(count, _)| *count >= requests).await?;
        Ok(at.unwrap_or_else(now))
    }
}

impl Drop for InstantModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Ends with its client.
        tokio::spawn(connection(stream, Arc::clone(&state)));
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(Arc::clone(&state), request));
    // An error is a client that left.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_turn = request.method() == Method::POST && request.uri().path().ends_with("/responses");
    // Read for every method: an unread body would make the close of a connection a reset.
    let _ = request.into_body().collect().await;
    if !is_turn {
        let mut missing = Response::new(Full::default());
        *missing.status_mut() = hyper::StatusCode::NOT_FOUND;
        return Ok(missing);
    }
    let mut number = 0;
    state.asked.send_modify(|(count, at)| {
        *count += 1;
        *at = Some(now());
        number = *count;
    });
    // The sender lives as long as the model.
    let _ = state.held.subscribe().wait_for(|held| !held).await;
    let mut response = Response::new(Full::from(stream_of(number)));
    let kind = hyper::header::HeaderValue::from_static("text/event-stream");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

/// All events of an answer.
fn stream_of(number: usize) -> String {
    let (response, item) = (format!("resp_{number}"), format!("msg_{number}"));
    let text = "done";
    let message = |status: &str, content: Value| json!({"type": "message", "id": item, "status": status, "role": "assistant", "content": content});
    let whole = message(
        "completed",
        json!([{"type": "output_text", "text": text, "annotations": []}]),
    );
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11,
    });
    let events = [
        json!({"type": "response.created", "response": {"id": response, "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": message("in_progress", json!([]))}),
        json!({"type": "response.content_part.added", "item_id": item, "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
        json!({"type": "response.output_text.delta", "item_id": item, "output_index": 0, "content_index": 0, "delta": text}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": whole}),
        json!({"type": "response.completed", "response": {"id": response, "status": "completed", "output": [whole], "usage": usage}}),
    ];
    let event = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}
