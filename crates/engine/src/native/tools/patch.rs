//! `apply_patch`, as a call of the model and as the patch inside of a command.
//!
//! The invariant here: what is judged and shown is what is written. The plan holds resolved paths and
//! the contents it was made from; writing opens each folder without following links and checks each
//! content, so a link or a file that was swapped in meanwhile, also while somebody was asked, makes
//! the patch fail and nothing is written outside. Once writing has begun it is finished, whatever
//! becomes of the turn.
//!
//! Reading, planning and writing patches is the business of [`patch`](crate::native::patch), which
//! questions are asked that of `policy`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::{
    Extra, FileChange, FileUpdate, FileUpdateKind, ItemBody, ItemStatus, ThreadItem,
};

use super::diff::{FileMode, Modes};
use super::exec::sandbox_for;
use super::{Called, Output, Permission, Stop, ToolTurn, text};
use crate::event::Event;
use crate::native::patch::{DiskFiles, Patch, PatchError, Place, Plan};
use crate::native::policy::{
    self, Escalation, PATCH_REJECTED, REFUSED_BY_POLICY, Stance, Writable,
};
use crate::said::{ApprovalRequest, ApprovalSubject};

/// What a person is told who is asked about files that the policy does not cover.
const OUTSIDE: &str = "changes files outside of the writable folders";

/// Applies the patch of a call: `{input}`, or the bare text of a custom call.
pub(crate) async fn apply_patch(turn: &Arc<ToolTurn>, called: &Called) -> Result<Output, Stop> {
    let text = match &called.arguments {
        Value::String(text) => Some(text.as_str()),
        Value::Object(members) => members.get("input").and_then(Value::as_str),
        _ => None,
    };
    match text {
        Some(text) => apply(turn, called, None, text).await,
        None => Ok(Output::failure(
            "failed to parse function arguments: `input` must be a string",
        )),
    }
}

/// Applies a patch whose relative paths start at `cd`, itself relative to the turn's folder.
///
/// What fails before anything is shown is text for the model without an item. Cancelled before
/// writing begins, the item has failed and nothing is changed; afterwards the patch is finished.
pub(crate) async fn apply(
    turn: &Arc<ToolTurn>,
    called: &Called,
    cd: Option<&str>,
    text: &str,
) -> Result<Output, Stop> {
    let began = (turn.clock)();
    let preparing = Prepared::make(turn, cd, text);
    let Ok(prepared) = turn.cancel.unless_cancelled(preparing).await else {
        return Err(aborted(turn, began));
    };
    let prepared = match (prepared, &called.permission) {
        (Ok(prepared), _) => prepared,
        (Err(_), Permission::Blocked(text)) => return Ok(failure(turn, text)),
        (Err(text), Permission::Usual | Permission::Asked) => return Ok(failure(turn, &text)),
    };
    let shown = Shown::start(turn, called, prepared.changes).await?;
    if let Some(refusal) = refusal(called, &shown, prepared.place).await? {
        shown.end(ItemStatus::Declined).await?;
        return Ok(failure(turn, &refusal).declined());
    }
    if turn.cancel.is_cancelled() {
        return Err(shown.cancelled().await?);
    }
    match write(turn, prepared.plan).await {
        Ok(written) => {
            shown.end(ItemStatus::Completed).await?;
            if let Some(diff) = written.diff {
                turn.sink.emit(Event::Diff(diff)).await?;
            }
            Ok(Output::success(for_model(turn, &written.text)))
        }
        Err(text) => {
            shown.end(ItemStatus::Failed).await?;
            Ok(failure(turn, &text))
        }
    }
}

/// A patch that could be written.
struct Prepared {
    plan: Plan,
    place: Place,
    /// What the item shows, without keys.
    changes: Vec<FileUpdate>,
}

impl Prepared {
    /// Reads, plans and judges; an error is the text for the model. Changes nothing.
    async fn make(turn: &Arc<ToolTurn>, cd: Option<&str>, text: &str) -> Result<Self, String> {
        let turn = Arc::clone(turn);
        let folder = cd.map(PathBuf::from).unwrap_or_default();
        let text = text.to_owned();
        blocking(move || {
            let made = Self::from_disk(&turn, &folder, &text);
            made.map_err(|error| error.text())
        })
        .await
    }

    fn from_disk(turn: &ToolTurn, folder: &Path, text: &str) -> Result<Self, PatchError> {
        let folder = Path::new(&turn.settings.cwd).join(folder);
        let patch = Patch::parse(text)?;
        let plan = Plan::make(&patch, &DiskFiles::new(folder))?;
        let sandbox = sandbox_for(&turn.settings, Escalation::Confined);
        let tmpdir = std::env::var_os("TMPDIR").map(PathBuf::from);
        let writable = Writable::of(&sandbox, tmpdir.as_deref(), turn.service.hidden());
        let place = plan.place(|path| writable.judge(path));
        let changes = redacted(turn, plan.changes());
        Ok(Self {
            plan,
            place,
            changes,
        })
    }
}

/// What a patch that was applied brought.
struct Written {
    /// The diff of the turn without keys, if it is another one than before.
    diff: Option<String>,
    /// What the model is told.
    text: String,
}

/// Writes the plan and takes it into the diff of the turn; an error is the text for the model.
async fn write(turn: &Arc<ToolTurn>, plan: Plan) -> Result<Written, String> {
    let turn = Arc::clone(turn);
    blocking(move || {
        let modes = modes(&plan);
        plan.apply().map_err(|error| error.text())?;
        let cwd = Path::new(&turn.settings.cwd);
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let diff = turn.diff.blocking_lock().take(&plan, &modes, &cwd);
        Ok(Written {
            diff: diff.map(|diff| turn.redactor.text(&diff).into_owned()),
            text: plan.success(),
        })
    })
    .await
}

/// Why the patch is not applied; none: it is.
async fn refusal(called: &Called, shown: &Shown<'_>, place: Place) -> Result<Option<String>, Stop> {
    let turn = shown.turn;
    let least = match &called.permission {
        Permission::Blocked(text) => return Ok(Some(text.clone())),
        Permission::Asked => Stance::Ask,
        Permission::Usual => Stance::Run,
    };
    match policy::for_patch(turn.settings.approval_policy, place).max(least) {
        Stance::Run => return Ok(None),
        Stance::Refuse => return Ok(Some(REFUSED_BY_POLICY.to_owned())),
        Stance::Ask => {}
    }
    let request = ApprovalRequest {
        item_id: called.item_id.clone(),
        subject: ApprovalSubject::FileChange {
            changes: shown.changes.clone(),
            grant_root: None,
            escalated: place == Place::Outside,
        },
        reason: (place == Place::Outside).then(|| OUTSIDE.to_owned()),
        available_decisions: None,
    };
    let decided = called.approve(&turn.ask, request).await;
    if turn.cancel.is_cancelled() {
        return Err(shown.cancelled().await?);
    }
    if decided.is_timed_out() {
        shown.end(ItemStatus::Declined).await?;
        return Err(Stop::Unanswered);
    }
    match decided.decision {
        Decision::Accept
        | Decision::AcceptForSession
        | Decision::AcceptWithExecpolicyAmendment { .. } => {
            // Somebody may have taken the lane while this one waited for an answer.
            turn.sink.commit().await?;
            Ok(None)
        }
        Decision::Decline => Ok(Some(policy::rejected(PATCH_REJECTED, decided.reason))),
        Decision::Cancel => {
            shown.end(ItemStatus::Declined).await?;
            Err(Stop::Interrupted)
        }
    }
}

/// The item of a patch, which is ended in exactly one of two ways.
struct Shown<'a> {
    turn: &'a ToolTurn,
    item: ThreadItem,
    changes: Vec<FileUpdate>,
}

impl<'a> Shown<'a> {
    async fn start(
        turn: &'a ToolTurn,
        called: &Called,
        changes: Vec<FileUpdate>,
    ) -> Result<Self, Stop> {
        let body = body(changes.clone(), ItemStatus::InProgress);
        let item = ThreadItem::started(called.item_id.clone(), (turn.clock)(), body);
        let event = Event::ItemStarted(Box::new(item.clone()));
        turn.sink.emit(event).await?;
        Ok(Self {
            turn,
            item,
            changes,
        })
    }

    async fn end(&self, status: ItemStatus) -> Result<(), Stop> {
        let item = ThreadItem {
            body: body(self.changes.clone(), status),
            completed_at_ms: Some((self.turn.clock)()),
            ..self.item.clone()
        };
        let event = Event::ItemCompleted(Box::new(item));
        Ok(self.turn.sink.emit(event).await?)
    }

    /// Ends it because the turn was stopped before anything was written.
    async fn cancelled(&self) -> Result<Stop, Stop> {
        self.end(ItemStatus::Failed).await?;
        let began = self.item.started_at_ms.unwrap_or_default();
        Ok(aborted(self.turn, began))
    }
}

/// The end of a call that an interrupt ended.
pub(super) fn aborted(turn: &ToolTurn, began_ms: i64) -> Stop {
    let after_ms = (turn.clock)().saturating_sub(began_ms);
    let after = Duration::from_millis(u64::try_from(after_ms).unwrap_or(0));
    Stop::Cancelled(turn.cancel.cut_off(after))
}

fn body(changes: Vec<FileUpdate>, status: ItemStatus) -> ItemBody {
    ItemBody::FileChange(FileChange {
        changes,
        status,
        extra: Extra::new(),
    })
}

fn redacted(turn: &ToolTurn, changes: &[FileUpdate]) -> Vec<FileUpdate> {
    let clean = |text: &str| turn.redactor.text(text).into_owned();
    let redacted = changes.iter().map(|change| FileUpdate {
        path: clean(&change.path),
        kind: match &change.kind {
            FileUpdateKind::Update { move_path } => FileUpdateKind::Update {
                move_path: move_path.as_deref().map(clean),
            },
            kind @ (FileUpdateKind::Add | FileUpdateKind::Delete | FileUpdateKind::Unlisted(_)) => {
                kind.clone()
            }
        },
        diff: clean(&change.diff),
        extra: change.extra.clone(),
    });
    redacted.collect()
}

fn failure(turn: &ToolTurn, text: &str) -> Output {
    Output::failure(for_model(turn, text))
}

fn for_model(turn: &ToolTurn, said: &str) -> String {
    text::for_model(&turn.redactor.text(said), turn.tools.output_tokens_max)
}

/// What the files of a plan are now, for the diff of the turn.
fn modes(plan: &Plan) -> Modes {
    let olds = plan.contents().filter(|content| content.old.is_some());
    let mode = |path: &Path| {
        let mode = path.symlink_metadata().ok()?.permissions().mode();
        Some(if mode & 0o111 == 0 {
            FileMode::Plain
        } else {
            FileMode::Executable
        })
    };
    olds.filter_map(|content| Some((content.path.to_owned(), mode(content.path)?)))
        .collect()
}

/// Runs what blocks beside the async threads; it is finished even if nobody waits any more.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "applying a patch broke off");
            Err("apply_patch failed: internal error".to_owned())
        }
    }
}
