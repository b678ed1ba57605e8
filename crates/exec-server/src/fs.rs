//! `fs/*`: files of the server's machine, under the same policies as its processes.
//!
//! Blocking work runs off the async threads. With a `sandbox` a path is resolved fully, checked, and
//! then opened without following any link, so that a swap between check and use fails.

use serde_json::value::RawValue;
use turnlane_protocol::error::ErrorObject;

/// The files of one connection: its open handles. Dropping it closes them.
#[derive(Debug, Default)]
pub(crate) struct Files {}

impl Files {
    /// Whether `method` is answered here.
    pub(crate) fn knows(method: &str) -> bool {
        let _ = method;
        todo!()
    }

    /// Answers one call with its encoded result.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, ErrorObject> {
        let _ = (method, params);
        todo!()
    }
}
