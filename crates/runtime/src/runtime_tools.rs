//! The tools that the runtime itself offers to agents, and who answers a call.
//!
//! The invariant here: the table is filled once, when the runtime starts, and a call reaches only a
//! tool that was offered to the very turn that makes it. Engines know the tools by name and schema
//! alone.
//!
//! What the tools do is the business of `fanout`.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use turnlane_engine::{BoxFuture, RuntimeTool, ToolAnswer, ToolCall, TurnRequest, TurnSettings};
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::usage::TokenCounts;

/// The source of the threads of fan-out items.
pub(crate) const ITEM_SOURCE: &str = "subAgentOther";

/// The item that a thread works on, in the facts of the thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemFacts {
    /// The id of its job.
    pub job_id: String,
    /// The id of the item.
    pub item_id: String,
    /// True if its result arrives by the tool.
    pub reports: bool,
}

impl ItemFacts {
    /// The variables by which commands of the item's thread make keys of their own. A turn that a
    /// person queued on the thread belongs to no attempt.
    pub(crate) fn command_variables(&self, client_id: &str) -> Vec<(String, String)> {
        let mut variables = vec![
            ("TURNLANE_FANOUT_JOB".to_owned(), self.job_id.clone()),
            ("TURNLANE_FANOUT_ITEM".to_owned(), self.item_id.clone()),
        ];
        if let Some(attempt) = attempt_of(client_id) {
            variables.push(("TURNLANE_FANOUT_ATTEMPT".to_owned(), attempt.to_owned()));
        }
        variables
    }
}

/// The attempt in the key of an item's turn, `fanout:<job>:<seq>:<attempt>`; a repair turn adds its
/// number.
fn attempt_of(client_id: &str) -> Option<&str> {
    let mut parts = client_id.strip_prefix("fanout:")?.split(':').skip(2);
    parts.next()
}

/// A turn, as tools see it.
#[derive(Clone, Debug)]
pub(crate) struct ToolTurn {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub engine: String,
    pub settings: TurnSettings,
    /// The item that its thread works on.
    pub item: Option<ItemFacts>,
}

/// A tool of the runtime.
pub(crate) trait Tool: Send + Sync {
    /// The tool as this turn is offered it; none if it is not.
    fn offer(&self, turn: &ToolTurn) -> Option<RuntimeTool>;

    /// Answers a call of a turn that has used so many tokens. The future is dropped when the turn is
    /// stopped.
    fn call(
        &self,
        turn: Arc<ToolTurn>,
        call: ToolCall,
        used: Option<TokenCounts>,
    ) -> BoxFuture<'static, ToolAnswer>;
}

/// The tools of a runtime.
#[derive(Default)]
pub(crate) struct ToolTable(OnceLock<Vec<Arc<dyn Tool>>>);

impl ToolTable {
    /// Fills the table; the first call counts.
    pub(crate) fn fill(&self, tools: Vec<Arc<dyn Tool>>) {
        let _ = self.0.set(tools);
    }

    /// Offers a turn its tools; none where it gets none.
    pub(crate) fn equip(
        &self,
        request: &mut TurnRequest,
        engine: &str,
        item: Option<ItemFacts>,
    ) -> Option<Arc<TurnTools>> {
        let table = self.0.get().filter(|table| !table.is_empty())?;
        let turn = ToolTurn {
            thread: request.thread_id,
            turn: request.turn_id,
            engine: engine.to_owned(),
            settings: request.settings.clone(),
            item,
        };
        let mut offered = Vec::new();
        for tool in table {
            if let Some(shown) = tool.offer(&turn) {
                offered.push((shown.name.clone(), Arc::clone(tool)));
                request.runtime_tools.push(shown);
            }
        }
        let turn = Arc::new(turn);
        (!offered.is_empty()).then(|| Arc::new(TurnTools { turn, offered }))
    }
}

/// The tools that one turn was offered.
pub(crate) struct TurnTools {
    turn: Arc<ToolTurn>,
    offered: Vec<(String, Arc<dyn Tool>)>,
}

impl TurnTools {
    /// The answer to come; none if the turn was not offered the tool.
    pub(crate) fn call(
        &self,
        call: &ToolCall,
        used: Option<TokenCounts>,
    ) -> Option<BoxFuture<'static, ToolAnswer>> {
        let (_, tool) = self.offered.iter().find(|(name, _)| *name == call.tool)?;
        Some(tool.call(Arc::clone(&self.turn), call.clone(), used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_turns_of_an_item_name_an_attempt() {
        let facts = ItemFacts {
            job_id: "j".to_owned(),
            item_id: "row-1".to_owned(),
            reports: true,
        };
        let attempt = |client_id: &str| {
            let variables = facts.command_variables(client_id);
            assert_eq!(variables[0], ("TURNLANE_FANOUT_JOB".into(), "j".into()));
            assert_eq!(
                variables[1],
                ("TURNLANE_FANOUT_ITEM".into(), "row-1".into())
            );
            variables.get(2).map(|(_, value)| value.clone())
        };
        assert_eq!(attempt("fanout:j:0:2").as_deref(), Some("2"));
        assert_eq!(attempt("fanout:j:0:2:1").as_deref(), Some("2"));
        assert_eq!(attempt("a message of a person"), None);
    }
}
