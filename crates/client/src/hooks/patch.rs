//! What a hook may change in which phase, and how changes compose.
//!
//! The invariant here: a change that is not allowed is left out and becomes an issue with the exact
//! words of the contract; the allowed rest of the same patch is kept. Pure but for one look at the
//! disk: an attachment must be there.

use std::path::Path;

use serde_json::{Map, Value};

use super::runner::Subject;
use super::{HookPatch, HookPhase};
use crate::input::{Attachment, InputItem};

/// What can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Prompt,
    Attachments,
    Model,
    Metadata,
    ToolInput,
}

impl Change {
    /// As issues name it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt_override",
            Self::Attachments => "add_attachments",
            Self::Model => "model_override",
            Self::Metadata => "metadata_delta",
            Self::ToolInput => "tool_input",
        }
    }

    fn is_allowed_in(self, phase: HookPhase) -> bool {
        match phase {
            HookPhase::PreSessionStart => matches!(self, Self::Model | Self::Metadata),
            HookPhase::PreRun | HookPhase::PreTurn => self != Self::ToolInput,
            HookPhase::PreToolUse => self == Self::ToolInput,
            HookPhase::PostRun
            | HookPhase::PostSessionStart
            | HookPhase::PostTurn
            | HookPhase::PostToolUse => false,
        }
    }
}

/// The patch without what its phase does not allow, and what is wrong with it.
pub(super) fn permitted(
    mut patch: HookPatch,
    phase: HookPhase,
    cwd: Option<&Path>,
) -> (HookPatch, Vec<String>) {
    let mut wrong = Vec::new();
    for change in [
        Change::Prompt,
        Change::Attachments,
        Change::Model,
        Change::Metadata,
        Change::ToolInput,
    ] {
        if !change.is_allowed_in(phase) && take(&mut patch, change) {
            wrong.push(format!("{} is not allowed in {phase}", change.as_str()));
        }
    }
    patch.attachments.retain(|attachment| {
        let is_there = is_there(attachment, cwd);
        if !is_there {
            wrong.push("hook attachment path not found; mutation ignored".to_owned());
        }
        is_there
    });
    (patch, wrong)
}

/// Takes a change out of a patch; whether it was there.
fn take(patch: &mut HookPatch, change: Change) -> bool {
    match change {
        Change::Prompt => patch.prompt.take().is_some(),
        Change::Attachments => !std::mem::take(&mut patch.attachments).is_empty(),
        Change::Model => patch.model.take().is_some(),
        Change::Metadata => !std::mem::take(&mut patch.metadata).is_empty(),
        Change::ToolInput => patch.tool_input.take().is_some(),
    }
}

fn is_there(attachment: &Attachment, cwd: Option<&Path>) -> bool {
    let path = match attachment {
        Attachment::AtPath { path, .. } | Attachment::LocalImage(path) => path,
        Attachment::ImageUrl(_) => return true,
    };
    cwd.map_or_else(|| path.exists(), |cwd| cwd.join(path).exists())
}

/// Applies what is permitted.
pub(super) fn apply(patch: HookPatch, subject: &mut Subject) {
    if let Some(prompt) = patch.prompt {
        replace_words(&mut subject.input.0, prompt);
    }
    if patch.model.is_some() {
        subject.model = patch.model;
    }
    subject.attachments.extend(patch.attachments);
    merge(&mut subject.metadata, patch.metadata);
}

/// Key by key; the later wins.
pub(super) fn merge(metadata: &mut Map<String, Value>, delta: Map<String, Value>) {
    metadata.extend(delta);
}

/// The words of an input, its texts joined by newlines; none where it has none.
pub(super) fn words(input: &[InputItem]) -> Option<String> {
    let texts = input.iter().filter_map(|item| match item {
        InputItem::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// All texts become one, at the place of the first; what is no text stays where it is.
fn replace_words(input: &mut Vec<InputItem>, prompt: String) {
    let is_text = |item: &InputItem| matches!(item, InputItem::Text { .. });
    let place = input.iter().position(is_text).unwrap_or(0);
    input.retain(|item| !is_text(item));
    input.insert(place, InputItem::text(prompt));
}
