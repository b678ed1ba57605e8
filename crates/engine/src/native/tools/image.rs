//! `view_image`: a picture from a file, shown to the model after the round's outputs.
//!
//! The invariant here: only a regular file that is a picture by its content and within the limit is
//! shown; nothing is fetched. An item stands for a picture that was read, or that somebody was asked
//! about.
//!
//! How pictures are sent is the business of [`history`](crate::native::history).

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use turnlane_process::{Access, PathPolicy, Sandbox};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::input::ImageDetail;
use turnlane_protocol::item::{CommandAction, Extra, ImageView, ItemBody, ThreadItem};

use super::exec::sandbox_for;
use super::patch::aborted;
use super::{Called, Output, Permission, Pictures, Stop, ToolTurn};
use crate::event::Event;
use crate::native::history::{Image, read_image};
use crate::native::policy::{self, Escalation};
use crate::said::{ApprovalRequest, ApprovalSubject};

/// What the model is told beside the picture.
const ATTACHED: &str = "image attached";
/// What the model is told when it calls what was not offered.
const NO_IMAGES: &str = "view_image is not available: this model takes no images";
/// What the model is told when somebody declined without a reason.
const REJECTED: &str = "view_image rejected by user";

#[derive(Deserialize)]
struct Arguments {
    path: String,
    /// Read leniently: a wish that is not understood is none.
    #[serde(default)]
    detail: Value,
}

/// Reads the picture of a call.
pub(crate) async fn view_image(turn: &ToolTurn, called: &Called) -> Result<Output, Stop> {
    let failed = |text: &str| Ok(Output::failure(turn.redactor.text(text)));
    if let Permission::Blocked(text) = &called.permission {
        return failed(text);
    }
    if turn.tools.pictures == Pictures::Refused {
        return failed(NO_IMAGES);
    }
    let arguments = match Arguments::deserialize(&called.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return failed(&format!("failed to parse function arguments: {error}")),
    };
    let path = PathBuf::from(&turn.settings.cwd).join(&arguments.path);
    let shown = turn.redactor.text(&path.display().to_string()).into_owned();
    let item = started(turn, called, &shown);
    let is_asked = called.permission == Permission::Asked;
    if is_asked {
        let event = Event::ItemStarted(Box::new(item.clone()));
        turn.sink.emit(event).await?;
        if let Some(text) = refusal(turn, called, &item, &shown).await? {
            complete(turn, item).await?;
            return failed(&text);
        }
    }
    let reading = read(Readable::of(turn), path, detail(&arguments.detail));
    let read = turn.cancel.unless_cancelled(reading).await;
    if !is_asked && matches!(read, Ok(Ok(_))) {
        let event = Event::ItemStarted(Box::new(item.clone()));
        turn.sink.emit(event).await?;
    }
    if is_asked || matches!(read, Ok(Ok(_))) {
        complete(turn, item.clone()).await?;
    }
    match read {
        Ok(Ok(picture)) => Ok(Output {
            pictures: vec![picture],
            ..Output::success(ATTACHED)
        }),
        Ok(Err(problem)) => failed(&format!("{}: {problem}", arguments.path)),
        Err(_cancelled) => Err(aborted(turn, item.started_at_ms.unwrap_or_default())),
    }
}

fn started(turn: &ToolTurn, called: &Called, path: &str) -> ThreadItem {
    let body = ItemBody::ImageView(ImageView {
        path: path.to_owned(),
        extra: Extra::new(),
    });
    ThreadItem::started(called.item_id.clone(), (turn.clock)(), body)
}

async fn complete(turn: &ToolTurn, item: ThreadItem) -> Result<(), Stop> {
    let item = ThreadItem {
        completed_at_ms: Some((turn.clock)()),
        ..item
    };
    let event = Event::ItemCompleted(Box::new(item));
    Ok(turn.sink.emit(event).await?)
}

/// Asks because a hook wants it; why the picture is not read, if it is not.
async fn refusal(
    turn: &ToolTurn,
    called: &Called,
    item: &ThreadItem,
    path: &str,
) -> Result<Option<String>, Stop> {
    let command = format!("view_image {path}");
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    // Looking at a picture has no question of its own; people know this one.
    let request = ApprovalRequest {
        item_id: called.item_id.clone(),
        subject: ApprovalSubject::Command {
            command: command.clone(),
            cwd: turn.redactor.text(&turn.settings.cwd).into_owned(),
            actions: vec![CommandAction::Read {
                command,
                name,
                path: path.to_owned(),
                extra: Extra::new(),
            }],
            words: None,
            stdin: None,
            escalated: false,
            proposed_amendment: None,
        },
        reason: None,
        available_decisions: None,
    };
    let decided = called.approve(&turn.ask, request).await;
    if turn.cancel.is_cancelled() {
        complete(turn, item.clone()).await?;
        return Err(aborted(turn, item.started_at_ms.unwrap_or_default()));
    }
    if decided.is_timed_out() {
        complete(turn, item.clone()).await?;
        return Err(Stop::Unanswered);
    }
    match decided.decision {
        Decision::Accept
        | Decision::AcceptForSession
        | Decision::AcceptWithExecpolicyAmendment { .. } => Ok(None),
        Decision::Decline => Ok(Some(policy::rejected(REJECTED, decided.reason))),
        Decision::Cancel => {
            complete(turn, item.clone()).await?;
            Err(Stop::Interrupted)
        }
    }
}

/// The detail the model wished for, where it is one that is passed on.
fn detail(wish: &Value) -> Option<ImageDetail> {
    match wish.as_str() {
        Some("high") => Some(ImageDetail::High),
        Some("original") => Some(ImageDetail::Original),
        _ => None,
    }
}

/// What the commands of a turn could read. We open the file for the model, so we ask the same policy.
struct Readable {
    sandbox: Sandbox,
    hidden: Vec<PathBuf>,
}

impl Readable {
    fn of(turn: &ToolTurn) -> Self {
        Self {
            sandbox: sandbox_for(&turn.settings, Escalation::Confined),
            hidden: turn.service.hidden().to_vec(),
        }
    }

    /// The path without links, if it may be read. A missing file is told by whoever opens it.
    fn resolve(&self, path: PathBuf) -> Result<PathBuf, String> {
        let Ok(resolved) = path.canonicalize() else {
            return Ok(path);
        };
        let tmpdir = std::env::var_os("TMPDIR").map(PathBuf::from);
        let policy = PathPolicy::new(&self.sandbox, tmpdir.as_deref(), &self.hidden);
        match policy.map(|policy| policy.access(&resolved)) {
            Ok(Access::Read | Access::Write) => Ok(resolved),
            Ok(Access::Deny) => Err("the image file cannot be read: permission denied".to_owned()),
            Err(error) => Err(format!("the image file cannot be read: {error}")),
        }
    }
}

async fn read(
    readable: Readable,
    path: PathBuf,
    detail: Option<ImageDetail>,
) -> Result<Image, String> {
    let read = tokio::task::spawn_blocking(move || {
        let path = readable.resolve(path)?;
        read_image(&path, detail).map_err(|refused| refused.to_string())
    });
    match read.await {
        Ok(read) => read,
        Err(error) => {
            tracing::error!(%error, "reading a picture broke off");
            Err("the image file cannot be read: internal error".to_owned())
        }
    }
}
