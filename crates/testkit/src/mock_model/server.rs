//! The HTTP side of the mock: connections in, scripted answers out.
//!
//! Theory of operation: one task accepts and owns a set of connection tasks, at most
//! [`CONNECTIONS_MAX`] of them; further clients wait in the listener's backlog. Ending the one
//! task drops the set and thereby ends every connection, in the middle of an answer too. An answer
//! is no task of its own but the body its connection reads from.
//!
//! Which reply a request gets is the recorder's decision; what a reply looks like is the reply's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{
    api_error::ApiError,
    body::{FlushedStream, Flushes, ScriptedBody},
    events::Context,
    recorder::{InFlight, Recorder, Scripted},
    reply::{Answer, Reply},
    request::RecordedRequest,
    wire::Step,
};

/// How many connections are served at once.
const CONNECTIONS_MAX: usize = 4096;

/// How long the mock rests when the system has no descriptor for a new connection.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// The error by which a service tells hyper to close the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the script hangs up here")]
struct HangUp;

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) recorder: Arc<Recorder>,
    pub(super) body_bytes_max: usize,
}

impl Service {
    /// Serves until it is dropped.
    pub(super) async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                    match accepted {
                        Ok((stream, _)) => {
                            connections.spawn(self.clone().connection(stream));
                        }
                        Err(_) => tokio::time::sleep(ACCEPT_REST).await,
                    }
                }
                Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    async fn connection(self, stream: TcpStream) {
        // Small events must leave when they are written, or a gate would prove nothing.
        let _ = stream.set_nodelay(true);
        let stream = FlushedStream::new(stream);
        let flushes = stream.flushes();
        let service = service_fn(move |request| self.clone().answer(request, flushes.clone()));
        // An error is a cut, a hang-up, or a client that left: all are part of some test.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(
        self,
        request: Request<Incoming>,
        flushes: Flushes,
    ) -> Result<Response<ScriptedBody>, HangUp> {
        let in_flight = InFlight::new(Arc::clone(&self.recorder));
        let request = match self.record(request).await {
            Ok(request) => request,
            Err(refusal) => return respond(refusal, flushes, in_flight).await,
        };
        let path = request.path.strip_prefix("/v1").unwrap_or(&request.path);
        let answer = match (request.method.as_str(), path) {
            ("POST", "/responses") => self.scripted(request),
            ("GET", "/models") => {
                self.recorder.other(request);
                plain(&Reply::json(200, &models()))
            }
            _ => {
                let message = format!("the mock serves no {} {path}", request.method);
                self.recorder.other(request);
                refusal(404, &message)
            }
        };
        respond(answer, flushes, in_flight).await
    }

    /// The request with its body, or the answer that refuses it.
    async fn record(&self, request: Request<Incoming>) -> Result<RecordedRequest, Answer> {
        let (head, body) = request.into_parts();
        // Read for every method: an unread body would make the close of a connection a reset.
        let bytes = match Limited::new(body, self.body_bytes_max).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) if head.method == Method::GET => Bytes::new(),
            Err(why) => {
                return Err(refusal(
                    413,
                    &format!("the mock could not read the body: {why}"),
                ));
            }
        };
        let text = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        Ok(RecordedRequest {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers.iter().filter_map(text).collect(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            bytes,
        })
    }

    fn scripted(&self, request: RecordedRequest) -> Answer {
        let model = request.model().to_owned();
        let asked: String = request.last_user_text().chars().take(200).collect();
        match self.recorder.answer_for(request) {
            Scripted::Reply(number, reply) => reply.answer(&Context { number, model }),
            Scripted::Nothing => {
                let message = format!("the mock has no reply left for this request: {asked:?}");
                refusal(500, &message)
            }
            Scripted::Full => refusal(500, "the mock has no room to record this request"),
        }
    }
}

/// Performs what stands before the head, then gives hyper the head and the body.
async fn respond(
    answer: Answer,
    flushes: Flushes,
    mut in_flight: InFlight,
) -> Result<Response<ScriptedBody>, HangUp> {
    for step in answer.before_head {
        match step {
            Step::Pause(duration) => tokio::time::sleep(duration).await,
            Step::Gate(gate) => gate.pass().await,
            Step::Data(_) | Step::Cut => {}
        }
    }
    let Some(head) = answer.head else {
        in_flight.answered();
        return Err(HangUp);
    };
    let streamed = head
        .headers
        .iter()
        .any(|(_, value)| value.starts_with("text/event-stream"));
    let bytes = if streamed { None } else { length(&answer.body) };
    let mut response = Response::new(ScriptedBody::new(answer.body, bytes, flushes, in_flight));
    // What HTTP cannot carry is a mistake in the test; it shows as a missing header or status.
    if let Ok(status) = head.status.try_into() {
        *response.status_mut() = status;
    }
    for (name, value) in head.headers {
        if let (Ok(name), Ok(value)) = (
            hyper::header::HeaderName::try_from(name),
            hyper::header::HeaderValue::try_from(value),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// The length of a body that is only data.
fn length(steps: &[Step]) -> Option<u64> {
    let bytes = |step: &Step| match step {
        Step::Data(bytes) => u64::try_from(bytes.len()).ok(),
        Step::Pause(_) | Step::Gate(_) => Some(0),
        Step::Cut => None,
    };
    steps.iter().map(bytes).sum()
}

/// A reply that no request's number or model can change.
fn plain(reply: &Reply) -> Answer {
    reply.answer(&Context {
        number: 0,
        model: String::new(),
    })
}

/// The mock's own refusal, told apart from scripted errors by its type.
fn refusal(status: u16, message: &str) -> Answer {
    plain(&Reply::http_error(ApiError::new(
        status,
        "mock_error",
        message,
    )))
}

/// The list of models. `models` is where Codex 0.166 looks, `data` where everybody else does; the
/// former is empty because its entries are a private format.
fn models() -> Value {
    let model = |id: &str| json!({"id": id, "object": "model", "created": 0, "owned_by": "mock"});
    let data = ["mock-model", "mock-model-mini"].map(model);
    json!({"object": "list", "data": data, "models": []})
}
