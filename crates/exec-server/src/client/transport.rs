//! Ways to a server, and the handshake on each of them.
//!
//! The invariant here: opening and shaking hands each have a time limit of their own, and a failure
//! leaves nothing open. An [`Endpoint`] can be opened again; standard input and output cannot, so a
//! session over them ends with them.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use turnlane_protocol::envelope::{
    Message, RequestId, decode, encode_notification, encode_request,
};
use turnlane_protocol::exec_server::{
    INITIALIZE, INITIALIZED, InitializeAnswer, InitializeParams, PROCESS_V1, v0,
};
use turnlane_rpc::connect::{self, ConnectError};
use turnlane_rpc::{BinaryMessages, Duplex, Frames, Framing, Inbound};

use super::core::result;
use super::error::ClientError;
use super::options::{ClientOptions, Dialect};
use super::peer::Peer;

/// How long the other side may take nothing before it counts as gone.
pub(super) const WRITE_STALL_MAX: Duration = Duration::from_mins(1);

/// Frames that may come before the answer to `initialize`.
const EARLY_FRAMES_MAX: usize = 1024;

/// The id of `initialize`, on every connection.
const INITIALIZE_ID: i64 = 1;

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    WebSocket(String),
    Unix(PathBuf),
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) frames: Frames,
    /// What came before the answer.
    pub(super) early: Vec<Bytes>,
}

impl Endpoint {
    pub(super) async fn connect(&self, options: &ClientOptions) -> Result<Frames, ClientError> {
        let connecting = connect::Options {
            token: options.bearer_token.clone(),
            time_max: options.connect_timeout,
            ..connect::Options::default()
        };
        let (url, duplex) = match self {
            Self::WebSocket(url) => (url.clone(), connect::connect_ws(url, &connecting).await),
            Self::Unix(path) => (
                format!("unix://{}", path.display()),
                connect::connect_unix_lines(path, &connecting).await,
            ),
        };
        match duplex {
            Ok(duplex) => Ok(frames(duplex)),
            Err(ConnectError::Timeout { after }) => Err(ClientError::ConnectTimeout { url, after }),
            Err(source) => Err(ClientError::Connect { url, source }),
        }
    }
}

/// Answers of a server may be long, and binary messages hold JSON as well.
pub(super) fn frames(duplex: Duplex) -> Frames {
    let framing = Framing {
        binary: BinaryMessages::Read,
        ..Framing::default()
    };
    duplex.framed(&framing).into_frames()
}

/// Says `initialize` and `initialized`; `resume` is the session to go on with.
pub(super) async fn handshake(
    mut frames: Frames,
    options: &ClientOptions,
    resume: Option<&str>,
) -> Result<(Peer, Open), ClientError> {
    let after = options.initialize_timeout;
    let shaking = async {
        let params = initialize_params(options, resume);
        let id = RequestId::from(INITIALIZE_ID);
        let request = encode_request(&id, INITIALIZE, &params).map_err(|why| unwritable(&why))?;
        frames.writer.push(request.into());
        flush(&mut frames).await?;
        let mut early = Vec::new();
        let answer = answer(&mut frames, &mut early).await?;
        let peer = match options.dialect {
            Dialect::V0 => {
                result::<v0::InitializeAnswer>(&answer)?;
                Peer::v0()
            }
            Dialect::ProcessV1 => Peer::process_v1(result::<InitializeAnswer>(&answer)?),
        };
        let empty = serde_json::json!({});
        let initialized =
            encode_notification(INITIALIZED, &empty, None).map_err(|why| unwritable(&why))?;
        frames.writer.push(initialized.into());
        flush(&mut frames).await?;
        Ok((peer, early))
    };
    match timeout(after, shaking).await {
        Ok(shaken) => shaken.map(|(peer, early)| (peer, Open { frames, early })),
        Err(_) => Err(ClientError::InitializeTimeout { after }),
    }
}

fn initialize_params(options: &ClientOptions, resume: Option<&str>) -> InitializeParams {
    let client_name = options.client_name.clone();
    match options.dialect {
        Dialect::V0 => InitializeParams {
            client_name,
            protocol_version: Some(v0::VERSION.to_owned()),
            ..InitializeParams::default()
        },
        // Codex ignores the members it does not know (seen in 0.166).
        Dialect::ProcessV1 => InitializeParams {
            client_name,
            resume_session_id: Some(resume.map(str::to_owned)),
            protocol_version: Some(PROCESS_V1.to_owned()),
            detached_ttl_ms: (!options.resume).then_some(0),
        },
    }
}

async fn flush(frames: &mut Frames) -> Result<(), ClientError> {
    let flushed = frames.writer.flush(WRITE_STALL_MAX).await;
    flushed.map_err(|why| ClientError::closed(why.to_string()))
}

async fn answer(frames: &mut Frames, early: &mut Vec<Bytes>) -> Result<Bytes, ClientError> {
    loop {
        let frame = match frames.reader.next().await {
            Ok(Some(Inbound::Message(frame))) => frame,
            Ok(Some(Inbound::Ping(payload))) => {
                frames.writer.push_pong(&payload);
                flush(frames).await?;
                continue;
            }
            Ok(Some(Inbound::Alive)) => continue,
            Ok(Some(Inbound::TooLarge(_))) => {
                return Err(ClientError::Protocol("a message is too long".to_owned()));
            }
            Ok(Some(Inbound::Close(_)) | None) => {
                return Err(ClientError::closed("closed by the other side"));
            }
            Err(why) => return Err(ClientError::closed(why.to_string())),
        };
        match decode(&frame) {
            Ok(Message::Answer { id, outcome })
                if id.as_ref().and_then(RequestId::as_i64) == Some(INITIALIZE_ID) =>
            {
                return Ok(frame.slice_ref(outcome?.get().as_bytes()));
            }
            Ok(_) if early.len() < EARLY_FRAMES_MAX => early.push(frame),
            Ok(_) => {
                let text = "events instead of an answer to initialize".to_owned();
                return Err(ClientError::Protocol(text));
            }
            Err(refusal) => return Err(ClientError::Protocol(refusal.error.message)),
        }
    }
}

fn unwritable(why: &serde_json::Error) -> ClientError {
    ClientError::Protocol(format!("initialize cannot be written: {why}"))
}
