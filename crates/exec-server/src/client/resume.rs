//! Going on with a session over a new connection.
//!
//! A lost transport is not a dead process. The client asks for its session again and again, reads what
//! it missed and goes on. The invariant here: nothing is started again, only unanswered input is sent
//! again (the server knows it by its id), and a number is told once or counted as missing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};
use turnlane_protocol::exec_server::ALREADY_ATTACHED;
use turnlane_protocol::exec_server::process::{
    READ, ReadAnswer, ReadParams, Until, WAIT, WaitAnswer, WaitParams,
};

use super::cell::{Cell, Failure, Told};
use super::core::{CLOSED_HERE, Core, Kind, encode, result};
use super::error::ClientError;
use super::events::Exit;
use super::link::Again;
use super::peer;
use super::transport::{Open, handshake};
use super::wire::stream_from_wire;

/// Between two tries.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// After this the server has given the session up or soon will.
const RETRY_FOR: Duration = Duration::from_secs(25);

/// Asks for the session until it is given, refused for good, or too late.
pub(super) async fn reattach(core: &Core, again: &Again, lost: &str) -> Result<Open, String> {
    let Some(session) = core.peer.session_id.as_deref() else {
        return Err(lost.to_owned());
    };
    let deadline = Instant::now() + RETRY_FOR;
    let trying = async {
        loop {
            match attach(again, session).await {
                Ok(open) => return Ok(open),
                Err(error) if may_pass(&error) => sleep(RETRY_EVERY).await,
                Err(error) => return Err(format!("{lost}; not resumed: {error}")),
            }
        }
    };
    tokio::select! {
        tried = timeout_at(deadline, trying) => {
            tried.unwrap_or_else(|_| Err(format!("{lost}; not resumed in time")))
        }
        () = core.closing() => Err(CLOSED_HERE.to_owned()),
    }
}

async fn attach(again: &Again, session: &str) -> Result<Open, ClientError> {
    let frames = again.endpoint.connect(&again.options).await?;
    let (_, open) = handshake(frames, &again.options, Some(session)).await?;
    Ok(open)
}

/// Whether another try may succeed: the server is away or still believes in the old connection.
fn may_pass(error: &ClientError) -> bool {
    use turnlane_rpc::connect::ConnectError;
    match error {
        ClientError::Rpc { code, .. } => *code == ALREADY_ATTACHED,
        ClientError::Connect { source, .. } => match source {
            ConnectError::InvalidEndpoint { .. } | ConnectError::Unauthorized { .. } => false,
            ConnectError::HttpStatus { code, .. } => *code == 503,
            _ => true,
        },
        ClientError::ConnectTimeout { .. }
        | ClientError::InitializeTimeout { .. }
        | ClientError::Closed { .. } => true,
        _ => false,
    }
}

/// Reads what was missed of each process. All are asked for at once: the server holds the live events
/// of each back until it was, but not for long.
pub(super) async fn replay(core: Arc<Core>, missed: Vec<(Arc<Cell>, u64)>) {
    let mut replays = tokio::task::JoinSet::new();
    for (cell, after) in missed {
        replays.spawn(catch_up(Arc::clone(&core), cell, after));
    }
    while replays.join_next().await.is_some() {}
}

/// Reads what is missing of one process until nothing is.
///
/// Without a bound on the answer: live events go on behind it, and a reading in pages would have to
/// race them. What is lost when this connection is cut before the answer has arrived may therefore
/// be more than the server keeps; it is then counted.
pub(super) async fn catch_up(core: Arc<Core>, cell: Arc<Cell>, mut after: u64) {
    loop {
        let params = ReadParams {
            process_id: cell.id.as_str().to_owned(),
            after_seq: Some(after),
            max_bytes: None,
            wait_ms: None,
        };
        match read(&core, &cell, &params).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let exit = exit_of(&core, &cell, &answer).await;
                take_over(&cell, answer, exit);
            }
            // The link went away again; the next resume begins anew.
            Err(ClientError::Closed { .. }) => return,
            Err(error) => {
                let text = format!("the missed events cannot be read: {error}");
                return cell.fail(Failure::Protocol(text));
            }
        }
        match cell.end_replay() {
            Some(more) => after = more,
            None => break,
        }
    }
    if cell.is_closed() {
        core.forget(&cell);
    }
}

/// The answer, unless it was put in place already.
async fn read(
    core: &Core,
    cell: &Arc<Cell>,
    params: &ReadParams,
) -> Result<Option<ReadAnswer>, ClientError> {
    let id = core.next_id();
    let frame = encode(id, READ, params)?;
    let json = core.ask(Kind::Replay(Arc::clone(cell)), id, frame).await?;
    if json.is_empty() {
        return Ok(None);
    }
    result(&json).map(Some)
}

/// Puts an answer in place at once if nothing has to be asked about it; whether it did.
pub(super) fn take_live(cell: &Cell, json: &Bytes) -> bool {
    let Ok(answer) = result::<ReadAnswer>(json) else {
        return false;
    };
    if answer.exited && !cell.is_exited() {
        return false;
    }
    take_over(cell, answer, None);
    true
}

/// How it ended, if it ended while nobody was connected: a read tells the code alone.
async fn exit_of(core: &Core, cell: &Cell, answer: &ReadAnswer) -> Option<Exit> {
    if !answer.exited || cell.is_exited() {
        return None;
    }
    let mut exit = Exit {
        code: answer.exit_code.unwrap_or(-1),
        signal: None,
        reason: None,
        sandbox_denied: answer.sandbox_denied,
    };
    if core.peer.has(peer::WAIT) {
        let params = WaitParams {
            process_id: cell.id.as_str().to_owned(),
            until: Some(Until::Exited),
            timeout_ms: Some(0),
        };
        if let Ok(told) = core.call::<WaitAnswer>(WAIT, &params).await {
            exit.signal = told.signal;
            exit.reason = told.reason;
        }
    }
    Some(exit)
}

/// Puts an answer in as if its events had come by themselves. Numbers without output are the exit and
/// the close; any others are gone.
fn take_over(cell: &Cell, answer: ReadAnswer, exit: Option<Exit>) {
    let next_seq = answer.next_seq;
    let closed_seq = answer.closed.then(|| next_seq.saturating_sub(1));
    let first = cell.lock().next_seq;
    let is_output = |seq: u64| answer.chunks.iter().any(|chunk| chunk.seq == seq);
    let exit_seq = exit.and_then(|_| {
        let mut numbers = (first..closed_seq.unwrap_or(next_seq)).rev();
        numbers.find(|seq| !is_output(*seq))
    });
    let mut gone_bytes = answer.omitted_bytes.unwrap_or(0);
    let mut told: Vec<(u64, Told)> = answer
        .chunks
        .into_iter()
        .map(|chunk| {
            let stream = stream_from_wire(chunk.stream);
            let bytes = chunk.chunk.0;
            (chunk.seq, Told::Output { stream, bytes })
        })
        .collect();
    told.extend(exit_seq.zip(exit.map(Told::Exited)));
    told.extend(closed_seq.map(|seq| {
        let drain_timed_out = false;
        (seq, Told::Closed { drain_timed_out })
    }));
    told.sort_by_key(|(seq, _)| *seq);
    for (seq, told) in told {
        if cell.lock().next_seq < seq {
            cell.skip_to(seq, std::mem::take(&mut gone_bytes));
        }
        cell.accept(seq, told);
    }
    cell.skip_to(next_seq, gone_bytes);
}
