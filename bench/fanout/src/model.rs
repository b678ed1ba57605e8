//! A model for workers: it reads the job and the item from the prompt and reports a result for them.
//!
//! A request whose tools hold `report_agent_job_result` is answered with a call of it, any other request
//! with a message that holds the same JSON. So a worker of ours and a plain thread of Codex end after one
//! request each. The model searches the text of a request and parses nothing, so that it costs little
//! beside the programs that are measured.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
use turnlane_benchkit::now;

/// The tool by which a worker reports.
const TOOL: &str = "report_agent_job_result";

/// A model on a loopback port, until it is dropped.
pub(crate) struct WorkerModel {
    address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    /// The time between a request and its answer.
    delay: Duration,
    /// How many requests are answered; later ones wait.
    answered_max: watch::Sender<usize>,
    seen: watch::Sender<Seen>,
    requests_by_item: Mutex<HashMap<String, usize>>,
}

/// The requests so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) requests: usize,
    in_flight: usize,
    pub(crate) in_flight_peak: usize,
    /// The arrival of the first request.
    pub(crate) first: Option<Instant>,
}

impl WorkerModel {
    /// Starts a model that answers every request after `delay`.
    pub(crate) async fn start(delay: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            delay,
            answered_max: watch::Sender::new(usize::MAX),
            seen: watch::Sender::new(Seen::default()),
            requests_by_item: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self {
            address,
            state,
            serving,
        })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn seen(&self) -> Seen {
        *self.state.seen.borrow()
    }

    /// Forgets the requests of earlier measurements.
    pub(crate) fn forget(&self) {
        self.state.seen.send_replace(Seen::default());
        self.state.items().clear();
    }

    /// Waits until `requests` requests have arrived.
    pub(crate) async fn asked_by(&self, requests: usize) -> anyhow::Result<Seen> {
        let mut seen = self.state.seen.subscribe();
        let found = seen.wait_for(|seen| seen.requests >= requests).await?;
        Ok(*found)
    }

    /// Answers the first `requests` requests and holds the others; `usize::MAX` answers all.
    pub(crate) fn answer_only(&self, requests: usize) {
        self.state.answered_max.send_replace(requests);
    }

    /// The number of items that were asked about, and of the requests beyond one for each.
    pub(crate) fn items_and_repeats(&self) -> (usize, usize) {
        let items = self.state.items();
        let requests: usize = items.values().sum();
        (items.len(), requests - items.len())
    }
}

impl State {
    fn items(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        let items = self.requests_by_item.lock();
        items.unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request about an item; its number.
    fn arrived(&self, item: &str) -> usize {
        *self.items().entry(item.to_owned()).or_default() += 1;
        let mut number = 0;
        self.seen.send_modify(|seen| {
            seen.requests += 1;
            seen.in_flight += 1;
            seen.in_flight_peak = seen.in_flight_peak.max(seen.in_flight);
            seen.first.get_or_insert_with(now);
            number = seen.requests;
        });
        number
    }
}

impl Drop for WorkerModel {
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
    // An error means that the client left.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_turn = request.method() == Method::POST && request.uri().path().ends_with("/responses");
    // The body is read for every method: closing a connection with an unread body resets it.
    let body = request.into_body().collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    if !is_turn {
        let mut missing = Response::new(Full::default());
        *missing.status_mut() = hyper::StatusCode::NOT_FOUND;
        return Ok(missing);
    }
    let body = String::from_utf8_lossy(&body);
    let item = line_of(&body, "Item ID: ");
    let job = line_of(&body, "Job ID: ");
    let number = state.arrived(&item);
    if !state.delay.is_zero() {
        tokio::time::sleep(state.delay).await;
    }
    // The sender lives as long as the model.
    let mut answered = state.answered_max.subscribe();
    let _ = answered.wait_for(|max| number <= *max).await;
    let stream = stream_of(number, &report(&body, &job, &item, number));
    state
        .seen
        .send_modify(|seen| seen.in_flight = seen.in_flight.saturating_sub(1));
    let mut response = Response::new(Full::from(stream));
    let kind = hyper::header::HeaderValue::from_static("text/event-stream");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The rest of the line that begins with `start`, in the text of a JSON string.
fn line_of(body: &str, start: &str) -> String {
    let rest = body.split_once(start).map_or("", |(_, rest)| rest);
    let end = rest.find(['\\', '"']).unwrap_or(rest.len());
    rest[..end].to_owned()
}

/// The output item that ends a worker's turn.
fn report(body: &str, job: &str, item: &str, number: usize) -> Value {
    let result = json!({"ok": true});
    if body.contains(TOOL) {
        let arguments = json!({"job_id": job, "item_id": item, "result": result});
        return json!({"type": "function_call", "id": format!("fc_{number}"),
            "call_id": format!("call_{number}"), "name": TOOL, "status": "completed",
            "arguments": arguments.to_string()});
    }
    let content = json!([{"type": "output_text", "text": result.to_string(), "annotations": []}]);
    json!({"type": "message", "id": format!("msg_{number}"), "status": "completed",
        "role": "assistant", "content": content})
}

/// All events of an answer.
fn stream_of(number: usize, item: &Value) -> String {
    let response = format!("resp_{number}");
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11,
    });
    let events = [
        json!({"type": "response.created", "response": {"id": response, "status": "in_progress"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": response, "status": "completed", "output": [item], "usage": usage}}),
    ];
    let event = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}
