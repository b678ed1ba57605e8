//! What a server answered instead of a result.
//!
//! The invariant here: a text of a server is shown to a bound, whole only to who reads the field.
//! What an answer means is decided in [`super::map`].

use serde_json::Value;

/// An error that a server answered.
#[derive(Clone, PartialEq)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i64,
    /// The server's text.
    pub message: String,
    /// What it added.
    pub data: Option<Value>,
}

/// How much of a server's text is shown.
const MESSAGE_CHARS_MAX: usize = 512;

impl RpcError {
    fn shown(&self) -> String {
        self.message.chars().take(MESSAGE_CHARS_MAX).collect()
    }

    /// The stable word that Turnlane puts into its errors.
    pub fn reason(&self) -> Option<&str> {
        self.data.as_ref()?.get("reason")?.as_str()
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.shown(), self.code)
    }
}

impl std::fmt::Debug for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcError")
            .field("code", &self.code)
            .field("message", &self.shown())
            .field("reason", &self.reason())
            // What else is in `data` may be anything, a prompt included.
            .finish_non_exhaustive()
    }
}

impl std::error::Error for RpcError {}
