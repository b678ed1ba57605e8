//! Commands and patches of a script: told in the order that real ones keep, or really done.
//!
//! The invariant here: nothing has an effect before its call is durable and the fence was checked.
//! The call is recorded, hooks are asked, the item is announced, somebody decides, then
//! `commit`, then the effect. A declined call has no effect and the turn goes on.
//!
//! What is really done is done by the neighbour `real`.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::{
    CommandAction, CommandExecution, CommandOutcome, CommandSource, Extra, FileChange, FileUpdate,
    FileUpdateKind, ItemBody, ItemStatus,
};

use super::play::{Player, Stop};
use super::script::{Effect, Exec, Patch, Tool};
use super::{patch, real};
use crate::event::Event;
use crate::hooks::{AfterTool, BeforeTool, ToolResult};
use crate::native::policy::{COMMAND_REJECTED, PATCH_REJECTED};
use crate::native::tools::{Permission, Stop as Stopped};
use crate::native::words::simple_command;
use crate::outcome::approval_timeout;
use crate::said::{ApprovalRequest, ApprovalSubject, Decided, ToolCall};

/// Longest piece of output in one delta.
const PIECE_BYTES: usize = 8 * 1024;

/// Whether somebody is asked first.
pub(super) enum Consent<'a> {
    NotNeeded,
    Needed { reason: Option<&'a str> },
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    Ran,
    Declined,
}

impl Player {
    /// Makes a call, from its record to its answer.
    pub(super) async fn call(&mut self, tool: &Tool, ask: Consent<'_>) -> Result<Called, Stop> {
        let item_id = self.stage.next_item_id();
        let name = match tool {
            Tool::Exec(_) => "exec_command",
            Tool::Patch(_) => "apply_patch",
        };
        let call = ToolCall {
            call_id: item_id.to_string(),
            item_id: item_id.clone(),
            tool: name.to_owned(),
            arguments: arguments(tool),
        };
        self.stage.record(vec![self.scribe.call(&call)]).await?;
        self.open_call = Some(call.call_id.clone());

        let hooked = self.control.ask.before_tool(&call).await;
        // An interrupt answers the question too, but then no hook has said anything.
        self.stop_if_cancelled()?;
        self.note_all(&hooked.context).await?;
        let mut tool = tool.clone();
        let mut ask = ask;
        let mut blocked = None;
        match hooked.answer {
            BeforeTool::Continue => {}
            BeforeTool::Rewrite(arguments) => rewrite(&mut tool, &arguments),
            BeforeTool::Ask => ask = Consent::Needed { reason: None },
            BeforeTool::Block(text) => blocked = Some(text),
            BeforeTool::Stop(text) => {
                self.answer(&call.call_id, &text).await?;
                return Err(Stop::by_hook(text));
            }
        }

        if tool.effect() == Effect::Real {
            let permission = match (blocked, ask) {
                (Some(text), _) => Permission::Blocked(text),
                (None, Consent::Needed { .. }) => Permission::Asked,
                (None, Consent::NotNeeded) => Permission::Usual,
            };
            return self.call_really(call, &tool, permission).await;
        }
        let body = self.body(&tool);
        self.stage.start(item_id.clone(), body).await?;
        if blocked.is_none()
            && let Consent::Needed { reason } = ask
        {
            let request = ApprovalRequest {
                item_id,
                subject: self.subject(&tool),
                reason: reason.map(str::to_owned),
                available_decisions: None,
            };
            let decided = self.control.approve(request).await;
            blocked = self.refusal(&tool, &call, decided).await?;
        }
        if let Some(text) = blocked {
            self.stage.complete(decline).await?;
            self.answer(&call.call_id, &text).await?;
            return Ok(Called::Declined);
        }

        // After the decision, which may take an hour: the fence has to be ours now.
        self.stage.commit().await?;
        let result = self.run(&tool).await?;
        self.after(&call, &result).await?;
        Ok(Called::Ran)
    }

    /// Makes a real call; the tool shows it and asks whoever has to be asked.
    async fn call_really(
        &mut self,
        mut call: ToolCall,
        tool: &Tool,
        permission: Permission,
    ) -> Result<Called, Stop> {
        // What a hook has rewritten.
        call.arguments = arguments(tool);
        self.stage.commit().await?;
        let Some(real) = &self.real else {
            return Err(real::unavailable());
        };
        let output = match real.call(&call, permission).await {
            Ok(output) => output,
            Err(Stopped::Fenced) => return Err(Stop::Fenced),
            Err(Stopped::Interrupted) => {
                self.answer(&call.call_id, rejected(tool)).await?;
                return Err(Stop::Interrupted(None));
            }
            Err(Stopped::Unanswered) => return Err(self.unanswered(&call.call_id).await?),
            Err(Stopped::Cancelled(text)) => {
                self.answer(&call.call_id, &text).await?;
                return Err(Stop::Interrupted(None));
            }
        };
        let result = ToolResult {
            text: output.text,
            success: output.success,
        };
        self.after(&call, &result).await?;
        Ok(if output.declined {
            Called::Declined
        } else {
            Called::Ran
        })
    }

    /// Hooks behind a call, and its answer.
    async fn after(&mut self, call: &ToolCall, result: &ToolResult) -> Result<(), Stop> {
        let hooked = self.control.ask.after_tool(call, result).await;
        self.note_all(&hooked.context).await?;
        match hooked.answer {
            AfterTool::Keep => self.answer(&call.call_id, &result.text).await,
            AfterTool::Replace(text) => self.answer(&call.call_id, &text).await,
            AfterTool::Stop(text) => {
                self.answer(&call.call_id, &result.text).await?;
                Err(Stop::by_hook(text))
            }
        }
    }

    /// Why a call is not made; none: it is. A cancelling decision stops the turn.
    async fn refusal(
        &mut self,
        tool: &Tool,
        call: &ToolCall,
        decided: Decided,
    ) -> Result<Option<String>, Stop> {
        // An interrupt answers the question too, but then the item was not declined by anybody.
        self.stop_if_cancelled()?;
        if decided.decision.is_accept() {
            return Ok(None);
        }
        if decided.is_timed_out() {
            self.stage.complete(decline).await?;
            return Err(self.unanswered(&call.call_id).await?);
        }
        let text = decided.reason.unwrap_or_else(|| rejected(tool).to_owned());
        if decided.decision == Decision::Cancel {
            self.stage.complete(decline).await?;
            self.answer(&call.call_id, &text).await?;
            return Err(Stop::Interrupted(None));
        }
        Ok(Some(text))
    }

    /// Records that nobody answered within the limit; the turn fails with it.
    async fn unanswered(&mut self, call_id: &str) -> Result<Stop, Stop> {
        let error = approval_timeout();
        self.answer(call_id, &error.message).await?;
        Ok(Stop::Failed(Box::new(error)))
    }

    async fn answer(&mut self, call_id: &str, text: &str) -> Result<(), Stop> {
        self.open_call = None;
        let answer = self.scribe.answer(call_id, text);
        Ok(self.stage.record(vec![answer]).await?)
    }

    fn body(&self, tool: &Tool) -> ItemBody {
        match tool {
            Tool::Exec(exec) => ItemBody::CommandExecution(Box::new(CommandExecution {
                command: exec.cmd.clone(),
                cwd: self.cwd.clone(),
                status: ItemStatus::InProgress,
                command_actions: vec![CommandAction::unknown(exec.cmd.as_str())],
                process_id: None,
                source: Some(CommandSource::Agent),
                aggregated_output: None,
                exit_code: None,
                duration_ms: None,
                plugin_id: None,
                script_path: None,
                outcome: None,
                extra: Extra::new(),
            })),
            Tool::Patch(patch) => ItemBody::FileChange(FileChange {
                changes: self.absolute(&patch.changes),
                status: ItemStatus::InProgress,
                extra: Extra::new(),
            }),
        }
    }

    fn subject(&self, tool: &Tool) -> ApprovalSubject {
        match tool {
            Tool::Exec(exec) => ApprovalSubject::Command {
                command: exec.cmd.clone(),
                cwd: self.cwd.clone(),
                actions: vec![CommandAction::unknown(exec.cmd.as_str())],
                words: simple_command(&exec.cmd),
                stdin: None,
                escalated: false,
                proposed_amendment: None,
            },
            Tool::Patch(patch) => ApprovalSubject::FileChange {
                changes: self.absolute(&patch.changes),
                grant_root: None,
                escalated: false,
            },
        }
    }

    /// The changes with paths as items show them.
    fn absolute(&self, changes: &[FileUpdate]) -> Vec<FileUpdate> {
        let join = |path: &str| {
            let joined = std::path::Path::new(&self.cwd).join(path);
            joined.to_string_lossy().into_owned()
        };
        let mut changes = changes.to_vec();
        for change in &mut changes {
            change.path = join(&change.path);
            if let FileUpdateKind::Update {
                move_path: Some(path),
            } = &mut change.kind
            {
                *path = join(path);
            }
        }
        changes
    }

    async fn run(&mut self, tool: &Tool) -> Result<ToolResult, Stop> {
        match tool {
            Tool::Exec(exec) => self.run_exec(exec).await,
            Tool::Patch(patch) => self.run_patch(patch).await,
        }
    }

    async fn run_exec(&mut self, exec: &Exec) -> Result<ToolResult, Stop> {
        let pieces = pieces(&exec.output);
        // The time is spread over the output, so that a client sees it come.
        let parts = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let pause = exec.time.checked_div(parts).unwrap_or(Duration::ZERO);
        for piece in &pieces {
            self.pause(pause).await?;
            self.stage.grow(piece).await?;
        }
        if pieces.is_empty() {
            self.pause(exec.time).await?;
        }
        let exit = exec.exit;
        let finish = |body: &mut ItemBody| {
            if let ItemBody::CommandExecution(command) = body {
                command.status = status(exit == 0);
                command.exit_code = Some(exit);
                command.outcome = Some(CommandOutcome::Exited);
                command.aggregated_output.get_or_insert_default();
            }
        };
        self.stage.complete(finish).await?;
        Ok(ToolResult {
            text: format!("Process exited with code {exit}\nOutput:\n{}", exec.output),
            success: exit == 0,
        })
    }

    async fn run_patch(&mut self, patch: &Patch) -> Result<ToolResult, Stop> {
        self.pause(patch.time).await?;
        let finish = |body: &mut ItemBody| {
            if let ItemBody::FileChange(change) = body {
                change.status = ItemStatus::Completed;
            }
        };
        self.stage.complete(finish).await?;
        self.diff.extend(patch.changes.iter().map(patch::unified));
        self.stage.emit(Event::Diff(self.diff.clone())).await?;
        let line = |change: &FileUpdate| {
            let letter = match change.kind {
                FileUpdateKind::Add => 'A',
                FileUpdateKind::Delete => 'D',
                FileUpdateKind::Update { .. } | FileUpdateKind::Unlisted(_) => 'M',
            };
            format!("\n{letter} {}", change.path)
        };
        let lines: String = patch.changes.iter().map(line).collect();
        Ok(ToolResult {
            text: format!("Success. Updated the following files:{lines}"),
            success: true,
        })
    }
}

fn arguments(tool: &Tool) -> Value {
    match tool {
        Tool::Exec(exec) => json!({"cmd": exec.cmd}),
        Tool::Patch(patch) => json!({"input": patch.input}),
    }
}

fn rejected(tool: &Tool) -> &'static str {
    match tool {
        Tool::Exec(_) => COMMAND_REJECTED,
        Tool::Patch(_) => PATCH_REJECTED,
    }
}

fn status(is_success: bool) -> ItemStatus {
    if is_success {
        ItemStatus::Completed
    } else {
        ItemStatus::Failed
    }
}

fn decline(body: &mut ItemBody) {
    match body {
        ItemBody::CommandExecution(command) => {
            command.status = ItemStatus::Declined;
            command.outcome = Some(CommandOutcome::Declined);
            command.duration_ms = None;
        }
        ItemBody::FileChange(change) => change.status = ItemStatus::Declined,
        // Only these two ask.
        _ => {}
    }
}

/// Arguments that make no sense leave the tool as it was; a script is not a parser's test.
fn rewrite(tool: &mut Tool, arguments: &Value) {
    match tool {
        Tool::Exec(exec) => {
            if let Some(cmd) = arguments["cmd"].as_str() {
                cmd.clone_into(&mut exec.cmd);
            }
        }
        Tool::Patch(patch) => {
            if let Some(input) = arguments["input"].as_str()
                && let Ok(changes) = patch::changes(input)
            {
                input.clone_into(&mut patch.input);
                patch.changes = changes;
            }
        }
    }
}

/// Output in pieces: lines, cut at [`PIECE_BYTES`].
fn pieces(output: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    for mut line in output.split_inclusive('\n') {
        while line.len() > PIECE_BYTES {
            let (piece, rest) = line.split_at(line.floor_char_boundary(PIECE_BYTES));
            pieces.push(piece);
            line = rest;
        }
        pieces.push(line);
    }
    pieces
}
