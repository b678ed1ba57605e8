//! What the other end is and what it can do.
//!
//! Found out once, by the answer to `initialize`. The invariant here: nothing is asked of a peer that
//! did not say it has it, because a server that ignores what it does not know would silently run a
//! process without its limit.

use std::collections::BTreeSet;

use turnlane_protocol::exec_server::InitializeAnswer;
use turnlane_protocol::exec_server::environment::EnvironmentInfo;

use super::error::ClientError;
use super::options::Dialect;

/// One of our extensions: its word in `environmentInfo`, and the method it stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension {
    word: &'static str,
    method: &'static str,
}

pub(super) const CLOSE_STDIN: Extension = extension("closeStdin", "process/closeStdin");
pub(super) const RESIZE: Extension = extension("resize", "process/resize");
pub(super) const WAIT: Extension = extension("wait", "process/wait");
pub(super) const SNAPSHOT: Extension = extension("snapshot", "process/snapshot");
pub(super) const LIST: Extension = extension("list", "process/list");
pub(super) const END: Extension = extension("end", "process/terminate mode");
pub(super) const SIGNALS: Extension = extension("signals", "process/signal");
pub(super) const SESSION_END: Extension = extension("sessionEnd", "session/end");

const fn extension(word: &'static str, method: &'static str) -> Extension {
    Extension { word, method }
}

/// The other end.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) dialect: Dialect,
    pub(super) session_id: Option<String>,
    pub(super) environment: Option<EnvironmentInfo>,
    extensions: BTreeSet<String>,
    is_ours: bool,
}

impl Peer {
    pub(super) fn v0() -> Self {
        Self {
            dialect: Dialect::V0,
            session_id: None,
            environment: None,
            extensions: BTreeSet::new(),
            is_ours: false,
        }
    }

    pub(super) fn process_v1(answer: InitializeAnswer) -> Self {
        let ours = answer
            .environment_info
            .as_ref()
            .and_then(|info| info.turnlane.as_ref());
        Self {
            dialect: Dialect::ProcessV1,
            is_ours: ours.is_some(),
            extensions: ours
                .into_iter()
                .flat_map(|ours| ours.extensions.iter().cloned())
                .collect(),
            session_id: Some(answer.session_id),
            environment: answer.environment_info,
        }
    }

    /// Whether it takes our additional fields of Codex's methods.
    pub(super) fn is_ours(&self) -> bool {
        self.is_ours
    }

    pub(super) fn has(&self, extension: Extension) -> bool {
        self.extensions.contains(extension.word)
    }

    pub(super) fn require(&self, extension: Extension) -> Result<(), ClientError> {
        if self.has(extension) {
            Ok(())
        } else {
            Err(ClientError::unsupported(extension.method))
        }
    }
}
