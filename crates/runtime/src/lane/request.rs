//! From an accepted turn to what its engine gets.
//!
//! The invariant here: a request is complete; the engine never has to ask for more. A history that
//! cannot be read fails the turn before the first model call.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use turnlane_engine::{
    Engine, Sink, TurnControl, TurnKind, TurnOutcome, TurnRequest, UnrecordedMessage,
};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::thread::ThreadEnvironment;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::StoreError;
use turnlane_store::turn::AcceptedTurn;

use super::past::Past;
use super::rows;
use crate::ids;
use crate::runtime_tools::ItemFacts;
use crate::settings::Settings;

/// The part of a thread's facts that its turns depend on.
#[derive(Deserialize)]
struct Facts {
    #[serde(default)]
    environments: Option<Vec<ThreadEnvironment>>,
    #[serde(default, rename = "fanoutItem")]
    item: Option<ItemFacts>,
}

/// A turn that is ready to be run.
pub(crate) struct ReadyTurn {
    /// What the engine gets, but for the history.
    pub request: TurnRequest,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// The fan-out item that its thread works on.
    pub item: Option<ItemFacts>,
}

/// The turn as it is run; an error text when what is stored cannot be read.
pub(crate) fn from_accepted(accepted: &AcceptedTurn, kind: TurnKind) -> Result<ReadyTurn, String> {
    let params: TurnStartParams = rows::read(&accepted.row.params)?;
    let settings: Settings = rows::read(&accepted.thread.settings)?;
    // A thread of an embedder may have no facts at all.
    let facts: Option<Facts> = rows::read(&accepted.thread.facts)?;
    let (environments, item) = facts.map_or((None, None), |facts| (facts.environments, facts.item));
    let attempt = accepted.turn.attempt;
    let client_id = if attempt > 1 {
        format!("{}#{attempt}", accepted.row.client_id)
    } else {
        accepted.row.client_id.clone()
    };
    let usage = accepted.thread.usage.as_ref();
    let state = accepted.thread.engine_state.as_ref();
    let timeout = params.timeout_ms.filter(|ms| *ms > 0);
    let request = TurnRequest {
        kind,
        thread_id: ids::wire_thread(accepted.lane.thread),
        turn_id: ids::wire_turn(accepted.turn.id),
        client_id,
        attempt,
        accepted_ms: accepted.turn.started_ms,
        context: Vec::new(),
        engine_state: state.and_then(|state| rows::read(state).ok()),
        history: Arc::default(),
        unrecorded: Vec::new(),
        input: match kind {
            TurnKind::Turn | TurnKind::Compact => params.input.clone(),
            TurnKind::Continue => Vec::new(),
        },
        item_id: accepted
            .item
            .as_ref()
            .map(|item| ItemId::from(item.id.as_str())),
        settings: settings.for_turn(&params, environments),
        runtime_tools: Vec::new(),
        command_variables: item.as_ref().map_or_else(Vec::new, |item| {
            item.command_variables(&accepted.row.client_id)
        }),
        thread_usage: usage.and_then(|usage| rows::read(usage).ok()),
    };
    Ok(ReadyTurn {
        request,
        timeout: timeout.map(Duration::from_millis),
        item,
    })
}

/// Runs the turn, or says at once why it cannot be run.
pub(crate) async fn run(
    engine: Option<Arc<dyn Engine>>,
    request: Result<TurnRequest, String>,
    past: Result<Past, StoreError>,
    sink: Sink,
    control: TurnControl,
) {
    let prepared = prepare(request, past);
    match (engine, prepared) {
        (Some(engine), Ok(request)) => turnlane_engine::run(engine, request, sink, control).await,
        (None, _) => {
            let text = "the engine of this thread is not available in this worker";
            refuse(text, ErrorKind::EngineUnavailable, sink).await;
        }
        (_, Err(why)) => refuse(&why, ErrorKind::Other, sink).await,
    }
}

async fn refuse(why: &str, kind: ErrorKind, sink: Sink) {
    let error = TurnError::new(why, CodexErrorInfo::Other, kind);
    turnlane_engine::end(TurnOutcome::cannot_start(error), sink).await;
}

fn prepare(
    request: Result<TurnRequest, String>,
    past: Result<Past, StoreError>,
) -> Result<TurnRequest, String> {
    let mut request = request?;
    let past = past.map_err(|error| format!("the history could not be read: {error}"))?;
    request.history = past.entries;
    let others = past.unrecorded.into_iter();
    request.unrecorded = others
        .filter_map(|message| {
            Some(UnrecordedMessage {
                turn_id: ids::wire_turn(message.turn),
                item: rows::read(&message.item.body).ok()?,
            })
        })
        .collect();
    Ok(request)
}
