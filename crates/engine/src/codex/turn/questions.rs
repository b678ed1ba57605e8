//! Questions of Codex during a turn, each answered exactly once.
//!
//! The invariants here: nothing but a decision of the lane becomes a yes; a question in a shape that we
//! cannot read, or about another turn, is refused; a question that Codex withdraws is withdrawn from the
//! people who were asked. Every question waits in a task of its own, and the tasks end with the turn.
//!
//! Questions that belong to no turn are answered by the connection.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use turnlane_protocol::approval::{
    COMMAND_METHOD, Decision, ELICITATION_METHOD, FILE_CHANGE_METHOD, OfferedDecision,
    PERMISSIONS_METHOD, TOOL_CALL_METHOD, USER_INPUT_METHOD,
};
use turnlane_protocol::envelope::RequestId;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Notification, Request, Responder};

use super::Turn;
use super::active::ActiveTurn;
use super::shapes::{
    CommandQuestion, FormerCommandQuestion, FormerPatchQuestion, PatchQuestion,
    PermissionsQuestion, ToolQuestion, TurnName, read,
};
use crate::control::Ask;
use crate::said::{ApprovalRequest, ApprovalSubject, Decided, ToolCall};

/// Approvals about commands of earlier protocols.
const FORMER_COMMAND_METHOD: &str = "execCommandApproval";
/// Approvals about patches of earlier protocols.
const FORMER_PATCH_METHOD: &str = "applyPatchApproval";

/// What an answered question means for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionEffect {
    None,
    /// The time limit of the approval passed: the turn ends as failed.
    TimedOut,
    /// The turn is to stop, and the answer could not say so.
    Stop,
}

/// The words in which Codex wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Command,
    Patch,
    Former,
}

/// The questions of a turn that wait for their answers.
#[derive(Default)]
pub(super) struct Questions {
    tasks: JoinSet<(Option<RequestId>, QuestionEffect)>,
    withdrawals: HashMap<RequestId, oneshot::Sender<()>>,
}

impl Questions {
    /// The effect of the next question that was answered; waits for ever without questions.
    ///
    /// Dropped while it waits, nothing is lost.
    pub(super) async fn next(&mut self) -> QuestionEffect {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(Ok((id, effect))) => {
                if let Some(id) = id {
                    self.withdrawals.remove(&id);
                }
                effect
            }
            // A task that panicked has dropped its responder, which refuses the question.
            Some(Err(_lost)) => QuestionEffect::None,
        }
    }

    /// Takes a question back that Codex does not wait for any more.
    pub(super) fn withdraw(&mut self, notice: &Notification) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Resolved {
            request_id: RequestId,
        }
        // Codex sends this for answered questions too; those are not listed any more.
        if let Some(Resolved { request_id }) = read(notice)
            && let Some(withdrawal) = self.withdrawals.remove(&request_id)
        {
            let _ = withdrawal.send(());
        }
    }

    /// Waits for an answer in a task, and gives it to Codex unless Codex takes the question back.
    fn wait<F, A>(&mut self, responder: Responder, decided: F, answer: A)
    where
        F: Future<Output = Decided> + Send + 'static,
        A: FnOnce(&Decided) -> (Value, QuestionEffect) + Send + 'static,
    {
        let id = responder.id().cloned();
        let (withdrawal, withdrawn) = oneshot::channel();
        if let Some(id) = &id {
            self.withdrawals.insert(id.clone(), withdrawal);
        }
        self.tasks.spawn(async move {
            let decided = tokio::select! {
                biased;
                Ok(()) = withdrawn => {
                    responder.leave();
                    return (id, QuestionEffect::None);
                }
                decided = decided => decided,
            };
            let (answer, effect) = answer(&decided);
            responder.result(&answer);
            (id, effect)
        });
    }
}

impl Turn {
    /// Answers a question, or has it answered. Returns a warning for people, if there is one.
    pub(super) fn question(
        &self,
        questions: &mut Questions,
        active: &ActiveTurn,
        request: Request,
    ) -> Option<String> {
        let Request {
            method,
            params,
            responder,
        } = request;
        let raw = params.raw();
        let name = serde_json::from_slice::<TurnName>(raw).ok();
        let other = name.and_then(|name| name.turn_id);
        if other.is_some_and(|turn| active.turn() != Some(turn.as_str())) {
            let error = ErrorObject::bare(-32600, "the question is about another turn");
            responder.error(&error);
            return None;
        }
        match method.as_str() {
            COMMAND_METHOD => self.command(questions, raw, responder),
            FILE_CHANGE_METHOD => self.patch(questions, raw, responder),
            PERMISSIONS_METHOD => self.permissions(questions, raw, responder),
            FORMER_COMMAND_METHOD => self.former_command(questions, raw, responder),
            FORMER_PATCH_METHOD => self.former_patch(questions, raw, responder),
            TOOL_CALL_METHOD => self.tool(questions, raw, responder),
            USER_INPUT_METHOD => {
                responder.result(&json!({"answers": {}}));
                return Some("a question of the agent was left unanswered".to_owned());
            }
            ELICITATION_METHOD => {
                responder.result(&json!({"action": "decline", "content": null}));
                return Some("a question of an MCP server was declined".to_owned());
            }
            method => responder.error(&ErrorObject::unknown_method(method)),
        }
        None
    }

    fn command(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<CommandQuestion>(raw, responder) else {
            return;
        };
        let amendment = question.proposed_execpolicy_amendment;
        let request = ApprovalRequest {
            item_id: self.items.id(&question.item_id),
            subject: ApprovalSubject::Command {
                command: question.command.unwrap_or_default(),
                cwd: question
                    .cwd
                    .unwrap_or_else(|| self.request.settings.cwd.clone()),
                actions: question.command_actions.unwrap_or_default(),
                words: amendment.clone(),
                stdin: None,
                escalated: true,
                proposed_amendment: amendment,
            },
            reason: question.reason,
            available_decisions: question.available_decisions.map(offered),
        };
        self.approve(questions, responder, request, Dialect::Command);
    }

    fn patch(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<PatchQuestion>(raw, responder) else {
            return;
        };
        let request = self.patch_request(&question.item_id, question.reason, question.grant_root);
        self.approve(questions, responder, request, Dialect::Patch);
    }

    fn former_command(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<FormerCommandQuestion>(raw, responder) else {
            return;
        };
        let request = ApprovalRequest {
            item_id: self.items.id(&question.call_id),
            subject: ApprovalSubject::Command {
                command: question.command.join(" "),
                cwd: question.cwd,
                actions: Vec::new(),
                words: None,
                stdin: None,
                escalated: true,
                proposed_amendment: None,
            },
            reason: question.reason,
            available_decisions: None,
        };
        self.approve(questions, responder, request, Dialect::Former);
    }

    fn former_patch(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<FormerPatchQuestion>(raw, responder) else {
            return;
        };
        let request = self.patch_request(&question.call_id, question.reason, question.grant_root);
        self.approve(questions, responder, request, Dialect::Former);
    }

    fn patch_request(
        &self,
        item: &str,
        reason: Option<String>,
        grant_root: Option<String>,
    ) -> ApprovalRequest {
        let item_id = self.items.id(item);
        ApprovalRequest {
            subject: ApprovalSubject::FileChange {
                changes: self.items.changes(&item_id),
                grant_root,
                escalated: true,
            },
            item_id,
            reason,
            available_decisions: None,
        }
    }

    fn approve(
        &self,
        questions: &mut Questions,
        responder: Responder,
        request: ApprovalRequest,
        dialect: Dialect,
    ) {
        let decided = self.decide(request);
        questions.wait(responder, decided, move |decided| {
            let answer = json!({"decision": decision_word(decided, dialect)});
            (answer, effect_of(decided, QuestionEffect::None))
        });
    }

    fn permissions(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<PermissionsQuestion>(raw, responder) else {
            return;
        };
        let wanted = question.permissions;
        let decided = self.decide(ApprovalRequest {
            item_id: self.items.id(&question.item_id),
            subject: ApprovalSubject::Permissions {
                cwd: question.cwd,
                permissions: wanted.clone(),
            },
            reason: question.reason,
            available_decisions: None,
        });
        questions.wait(responder, decided, move |decided| {
            let answer = match &decided.decision {
                _ if decided.is_timed_out() => json!({"permissions": {}}),
                Decision::Accept | Decision::AcceptWithExecpolicyAmendment { .. } => {
                    json!({"permissions": wanted, "scope": "turn"})
                }
                Decision::AcceptForSession => json!({"permissions": wanted, "scope": "session"}),
                Decision::Decline | Decision::Cancel => json!({"permissions": {}}),
            };
            // This answer has no word that stops the turn.
            let stop = match decided.decision {
                Decision::Cancel => QuestionEffect::Stop,
                _ => QuestionEffect::None,
            };
            (answer, effect_of(decided, stop))
        });
    }

    /// The lane's decision. A caller that may run nothing unconfined is not asked: every question of
    /// Codex is about leaving the sandbox.
    fn decide(&self, request: ApprovalRequest) -> impl Future<Output = Decided> + Send + 'static {
        let ask: Ask = self.ask.clone();
        let is_confined = self.request.settings.requires_sandbox;
        async move {
            if is_confined {
                let reason = "this caller may not run anything outside of the sandbox";
                return Decided::new(Decision::Decline).because(Some(reason.to_owned()));
            }
            ask.approve(request).await
        }
    }

    fn tool(&self, questions: &mut Questions, raw: &[u8], responder: Responder) {
        let Some((question, responder)) = parsed::<ToolQuestion>(raw, responder) else {
            return;
        };
        let mut tools = self.request.runtime_tools.iter();
        if !tools.any(|tool| tool.name == question.tool) {
            return responder.result(&json!({"contentItems": [], "success": false}));
        }
        let call = ToolCall {
            item_id: self.items.id(&question.call_id),
            call_id: question.call_id,
            tool: question.tool,
            arguments: question.arguments,
        };
        let ask = self.ask.clone();
        questions.tasks.spawn(async move {
            let answer = ask.call_tool(call).await;
            let content = json!([{"type": "inputText", "text": answer.text}]);
            responder.result(&json!({"contentItems": content, "success": answer.success}));
            (None, QuestionEffect::None)
        });
    }
}

/// Refuses a question in another shape.
fn parsed<T: DeserializeOwned>(raw: &[u8], responder: Responder) -> Option<(T, Responder)> {
    match serde_json::from_slice(raw) {
        Ok(question) => Some((question, responder)),
        Err(why) => {
            responder.error(&ErrorObject::invalid_params(&why));
            None
        }
    }
}

/// Codex's offer with the two decisions that it understands and does not list (0.166).
fn offered(mut listed: Vec<OfferedDecision>) -> Vec<OfferedDecision> {
    let at_end = listed.len().saturating_sub(1);
    for (place, decision) in [
        (1.min(listed.len()), Decision::AcceptForSession),
        (at_end + 1, Decision::Decline),
    ] {
        let decision = OfferedDecision::Known(decision);
        if !listed.contains(&decision) {
            listed.insert(place.min(listed.len()), decision);
        }
    }
    listed
}

fn effect_of(decided: &Decided, otherwise: QuestionEffect) -> QuestionEffect {
    if decided.is_timed_out() {
        QuestionEffect::TimedOut
    } else {
        otherwise
    }
}

/// A decision in Codex's words. An approval whose time limit passed stops the turn.
fn decision_word(decided: &Decided, dialect: Dialect) -> Value {
    let decision = if decided.is_timed_out() {
        &Decision::Cancel
    } else {
        &decided.decision
    };
    match (decision, dialect) {
        (Decision::AcceptWithExecpolicyAmendment { .. }, Dialect::Patch) => json!("accept"),
        (decision, Dialect::Command | Dialect::Patch) => json!(decision),
        (Decision::Accept, Dialect::Former) => json!("approved"),
        (Decision::AcceptForSession, Dialect::Former) => json!("approved_for_session"),
        (
            Decision::AcceptWithExecpolicyAmendment {
                execpolicy_amendment,
            },
            Dialect::Former,
        ) => json!({"approved_execpolicy_amendment": {
            "proposed_execpolicy_amendment": execpolicy_amendment,
        }}),
        (Decision::Decline, Dialect::Former) => json!("denied"),
        (Decision::Cancel, Dialect::Former) => json!("abort"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_written_in_the_words_of_the_question() {
        let amended = || Decision::AcceptWithExecpolicyAmendment {
            execpolicy_amendment: vec!["touch".to_owned()],
        };
        let word = |decision, dialect| decision_word(&Decided::new(decision), dialect);
        for (decision, today, former) in [
            (Decision::Accept, "accept", "approved"),
            (
                Decision::AcceptForSession,
                "acceptForSession",
                "approved_for_session",
            ),
            (Decision::Decline, "decline", "denied"),
            (Decision::Cancel, "cancel", "abort"),
        ] {
            assert_eq!(word(decision.clone(), Dialect::Command), today);
            assert_eq!(word(decision.clone(), Dialect::Patch), today);
            assert_eq!(word(decision, Dialect::Former), former);
        }
        assert_eq!(
            word(amended(), Dialect::Command),
            json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}})
        );
        assert_eq!(word(amended(), Dialect::Patch), "accept");
        let late = Decided::by_time_limit("late");
        assert_eq!(decision_word(&late, Dialect::Command), "cancel");
        assert_eq!(decision_word(&late, Dialect::Former), "abort");
    }

    #[test]
    fn the_offer_of_codex_gets_what_it_understands_besides() {
        let known = OfferedDecision::Known;
        let amended = OfferedDecision::Unlisted(json!({"x": 1}));
        let listed = vec![
            known(Decision::Accept),
            amended.clone(),
            known(Decision::Cancel),
        ];
        let expected = vec![
            known(Decision::Accept),
            known(Decision::AcceptForSession),
            amended,
            known(Decision::Decline),
            known(Decision::Cancel),
        ];
        assert_eq!(offered(listed), expected);
        assert_eq!(offered(expected.clone()), expected);
    }
}
