//! The state that both Codex engines save for a thread: Codex's id of it, and the tokens used so far.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};
use turnlane_protocol::usage::TokenCounts;

use crate::outcome::EngineError;

/// The version of [`CodexThreadState`] that this code writes.
const VERSION: u32 = 1;

/// `engineState` of a thread: `{"v":1,"threadId":"…","total":{…}|null}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodexThreadState {
    v: u32,
    /// Codex's id of the thread, a UUID.
    pub thread_id: String,
    /// Tokens that the thread had used after its last turn with known usage; none if its past is
    /// unknown.
    pub total: Option<TokenCounts>,
}

/// A saved state that this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the engine state of this thread: {reason}")]
pub struct UnreadableState {
    reason: String,
}

impl UnreadableState {
    /// The error of a turn that cannot start for this reason.
    pub fn to_error(&self) -> EngineError {
        EngineError::new(self.to_string(), CodexErrorInfo::Other, ErrorKind::Protocol)
    }
}

impl CodexThreadState {
    /// The state of a thread with this id.
    pub fn new(thread_id: impl Into<String>, total: Option<TokenCounts>) -> Self {
        Self {
            v: VERSION,
            thread_id: thread_id.into(),
            total,
        }
    }

    /// Returns true if Codex has counted no token on the thread.
    pub fn is_uncounted(&self) -> bool {
        self.total
            .as_ref()
            .is_none_or(|total| *total == TokenCounts::default())
    }

    /// Reads a saved state.
    pub fn read(state: &RawValue) -> Result<Self, UnreadableState> {
        let unreadable = |reason: String| UnreadableState { reason };
        let state: Self =
            serde_json::from_str(state.get()).map_err(|error| unreadable(error.to_string()))?;
        if state.v != VERSION {
            return Err(unreadable(format!("version {} is not known", state.v)));
        }
        Ok(state)
    }

    /// The id as an argument of `codex exec resume`, which takes any text but a UUID for a name.
    pub fn resumable_id(&self) -> Result<&str, UnreadableState> {
        if is_uuid(&self.thread_id) {
            return Ok(&self.thread_id);
        }
        let reason = "threadId is not a UUID".to_owned();
        Err(UnreadableState { reason })
    }

    /// The state as [`Sink::save_state`](crate::Sink::save_state) takes it; none never happens in
    /// practice, since no member of it can fail to be written.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        serde_json::value::to_raw_value(self).ok()
    }
}

/// Returns true for a UUID in its usual form. Codex takes any other text for a thread's name.
pub fn is_uuid(text: &str) -> bool {
    let is_part = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_part)
}

/// Returns true if Codex says with this text that it has no record of a thread.
///
/// It has none before the first turn of the thread, and an empty one if it died before it wrote the first
/// line, which it does before it calls the model.
pub(crate) fn says_unwritten(text: &str) -> bool {
    text.contains("no rollout found")
        || (text.contains("rollout at ") && text.contains(".jsonl is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let id = "01a1e099-a4bd-7e00-8ac9-0161f278d518";
        let state = CodexThreadState::new(id, None);
        let written = state.to_raw().unwrap();
        let expected = format!(r#"{{"v":1,"threadId":"{id}","total":null}}"#);
        assert_eq!(written.get(), expected);
        assert_eq!(CodexThreadState::read(&written).unwrap(), state);
        let counts = TokenCounts {
            input_tokens: 7,
            ..TokenCounts::default()
        };
        let state = CodexThreadState::new(id, Some(counts));
        let written = state.to_raw().unwrap();
        assert_eq!(CodexThreadState::read(&written).unwrap(), state);
    }

    #[test]
    fn a_missing_and_an_empty_record_are_none() {
        for (text, is_unwritten) in [
            ("no rollout found for thread id x (code -32600)", true),
            (
                "failed to read session metadata /a.jsonl: rollout at /a.jsonl is empty",
                true,
            ),
            (
                "Error: rollout at /a.jsonl is empty (code -32603)\n\nStack backtrace:",
                true,
            ),
            (
                "rollout at /a.jsonl does not start with session metadata",
                false,
            ),
            ("prompt is empty", false),
        ] {
            assert_eq!(says_unwritten(text), is_unwritten, "{text}");
        }
    }

    #[test]
    fn another_version_and_another_shape_are_refused() {
        let id = "01a1e099-a4bd-7e00-8ac9-0161f278d518";
        for wrong in [
            "7".to_owned(),
            "{}".to_owned(),
            format!(r#"{{"v":2,"threadId":"{id}","total":null}}"#),
        ] {
            assert!(CodexThreadState::read(&raw(&wrong)).is_err(), "{wrong}");
        }
        let named = raw(r#"{"v":1,"threadId":"--last","total":null}"#);
        let named = CodexThreadState::read(&named).unwrap();
        assert!(named.resumable_id().is_err(), "a name is not resumed");
    }
}
