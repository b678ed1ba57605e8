//! Small facts about rows and their payloads that several rules share.
//!
//! The invariant here: what is written with [`write`] is read back by [`read`] in the same version,
//! and a payload of another version is an error, never a guess.

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnlane_protocol::turn::TurnSource;
use turnlane_store::Json;
use turnlane_store::queue::Row;

/// The source of rows made by `turn/start`.
pub(crate) const DIRECT: &str = "direct";
/// The source of rows made by a fan-out job.
pub(crate) const FANOUT: &str = "fanout";
/// The source of rows made by `turnlane shim`.
pub(crate) const SHIM: &str = "shim";

/// Whether a row may come back after its turn or claim has ended: not when somebody waits for this
/// very turn id.
pub(crate) fn comes_back(row: &Row) -> bool {
    row.source != DIRECT && row.source != FANOUT
}

/// Reads a payload.
pub(crate) fn read<T: DeserializeOwned>(json: &Json) -> Result<T, String> {
    serde_json::from_str(json.as_str()).map_err(|error| error.to_string())
}

/// Writes a payload.
pub(crate) fn write<T: Serialize>(value: &T) -> Json {
    // Our own types have text keys only, so there is nothing that JSON cannot say.
    serde_json::to_string(value).map_or_else(|_| Json::new("null"), Json::from)
}

/// The wire's word for who asked for a turn.
pub(crate) fn source(word: &str) -> Option<TurnSource> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// A row of the queue that is under way, for tests of the rules.
#[cfg(test)]
pub(crate) fn under_way(state: turnlane_store::queue::RowState) -> Row {
    let id = uuid::Uuid::from_u128;
    Row {
        id: id(1).into(),
        turn: id(2).into(),
        last_turn: None,
        source: "queue".to_owned(),
        position: None,
        ahead: None,
        state,
        not_before_ms: 0,
        attempts: 1,
        losses: 0,
        put_backs: 0,
        stops: 0,
        continues: false,
        policies: turnlane_store::queue::Policies::default(),
        bound: None,
        key: None,
        client_id: "c".to_owned(),
        sent: false,
        sent_boot: None,
        params: write(&()),
        failure: None,
        created_ms: 0,
        updated_ms: 0,
        ended_ms: None,
    }
}
