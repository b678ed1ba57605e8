//! What a reviewer sees of a request.
//!
//! The invariant here: whatever came is there, in [`ApprovalRequest::params`]; the accessors read it
//! leniently and say nothing where a server says something else than expected. No request is too odd
//! to be shown.
//!
//! What is answered is decided in `answer.rs`.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnlane_protocol::item::{CommandAction, FileUpdate, FileUpdateKind};

use super::words;
use crate::ids::{ThreadId, TurnId};

/// What an agent wants to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The method that asks.
    pub method: String,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The turn.
    pub turn: Option<TurnId>,
    /// The item it is about.
    pub item: Option<String>,
    /// Everything that was asked, as it came.
    pub params: Value,
    command: Option<String>,
    actions: Vec<CommandAction>,
    changes: Vec<FileUpdate>,
}

impl ApprovalRequest {
    pub(super) fn new(method: String, params: Value) -> Self {
        let text = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| params.get(name)?.as_str());
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            thread: text(["threadId", "conversationId"]).map(ThreadId::from),
            turn: text(["turnId", "turnId"]).map(TurnId::from),
            item: text(["itemId", "callId"]),
            command: params.get("command").and_then(command_line),
            actions: listed(params.get("commandActions")),
            changes: changes_of(&params),
            method,
            params,
        }
    }

    /// Adds what the item was announced with, where the request itself does not say it.
    pub(super) fn announced(mut self, changes: Vec<FileUpdate>) -> Self {
        if self.changes.is_empty() {
            self.changes = changes;
        }
        self
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }

    fn present(&self, name: &str) -> Option<&Value> {
        self.params.get(name).filter(|value| !value.is_null())
    }

    fn list(&self, name: &str) -> &[Value] {
        let list = self.params.get(name).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// The command line, for commands. Codex and the native engine show it within its shell, as
    /// `/bin/bash -lc 'cargo test'`; [`actions`](Self::actions) has its parts.
    ///
    /// Show this text to people, and do not decide by it: `cargo test; curl … | sh` begins with
    /// `cargo test` too. [`runs`](Self::runs) compares words.
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// The words of the command if it is one simple command, also within `bash -lc`, `bash -c` and the
    /// same of `sh` and `zsh`.
    ///
    /// None for everything that could run more or something else: operators, substitutions,
    /// variables, patterns, redirections, assignments, other shells.
    pub fn words(&self) -> Option<Vec<String>> {
        words::simple_command(self.command.as_deref()?)
    }

    /// Returns true if the command is one simple command that begins with these words.
    ///
    /// `request.runs(&["cargo", "test"])` is true for `/bin/bash -lc 'cargo test -p app'`, and false
    /// for `cargo test; rm x` and for everything else without [`words`](Self::words). Whatever stands
    /// behind the beginning is covered: name as many words as the decision depends on. No words at
    /// all cover nothing.
    pub fn runs(&self, beginning: &[&str]) -> bool {
        let words = self.words().unwrap_or_default();
        !beginning.is_empty()
            && words.len() >= beginning.len()
            && words
                .iter()
                .zip(beginning)
                .all(|(word, begin)| word == begin)
    }

    /// Where the command would run, or from where relative paths are meant.
    pub fn cwd(&self) -> Option<&str> {
        self.text("cwd")
    }

    /// What the command does, as far as its text tells.
    pub fn actions(&self) -> &[CommandAction] {
        &self.actions
    }

    /// Why the agent asks.
    pub fn reason(&self) -> Option<&str> {
        self.text("reason")
    }

    /// What the patch does, for patches: from the request, else as its item was announced.
    pub fn changes(&self) -> &[FileUpdate] {
        &self.changes
    }

    /// A directory the agent wants to write in from now on.
    pub fn grant_root(&self) -> Option<&str> {
        self.text("grantRoot")
    }

    /// The host and protocol that a command wants to reach.
    pub fn network(&self) -> Option<&Value> {
        self.present("networkApprovalContext")
    }

    /// What the server says may be answered; empty when it does not say.
    pub fn available_decisions(&self) -> &[Value] {
        self.list("availableDecisions")
    }

    /// What an MCP server asks, in words.
    pub fn message(&self) -> Option<&str> {
        self.text("message")
    }

    /// The JSON Schema of the content that an MCP server asks for.
    pub fn schema(&self) -> Option<&Value> {
        self.present("requestedSchema")
    }

    /// The questions of an agent to a person, each with its `id`.
    pub fn questions(&self) -> &[Value] {
        self.list("questions")
    }

    /// The permissions that are wanted.
    pub fn permissions(&self) -> Option<&Value> {
        self.present("permissions")
    }
}

/// A command is one text, or its words in the requests of older servers.
fn command_line(command: &Value) -> Option<String> {
    match command {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words = words.iter().map(|word| word.as_str().map(quoted));
            Some(words.collect::<Option<Vec<_>>>()?.join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The members of a list that have the expected shape.
fn listed<T: DeserializeOwned>(list: Option<&Value>) -> Vec<T> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice);
    let read = |one: &Value| serde_json::from_value(one.clone()).ok();
    list.unwrap_or_default().iter().filter_map(read).collect()
}

/// The changes in the request itself: a list, or a map by path in the requests of older servers.
fn changes_of(params: &Value) -> Vec<FileUpdate> {
    match params.get("fileChanges") {
        Some(Value::Object(by_path)) => by_path.iter().map(legacy_change).collect(),
        _ => listed(params.get("changes")),
    }
}

fn legacy_change((path, change): (&String, &Value)) -> FileUpdate {
    let text = |name: &str| change.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = match change.get("type").and_then(Value::as_str) {
        Some("add") => FileUpdateKind::Add,
        Some("delete") => FileUpdateKind::Delete,
        Some("update") => FileUpdateKind::Update {
            move_path: text("move_path"),
        },
        _ => FileUpdateKind::Unlisted(change.as_object().cloned().unwrap_or_default()),
    };
    FileUpdate {
        path: path.clone(),
        kind,
        diff: text("unified_diff")
            .or_else(|| text("content"))
            .unwrap_or_default(),
        extra: Map::new(),
    }
}
