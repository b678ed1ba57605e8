//! The command line and the prompt of one turn.
//!
//! The invariant: a setting that `codex exec` cannot honour is refused, never dropped. Options stand
//! before `resume`, where Codex takes all of them, and nothing positional follows a picture, because
//! `--image` would take it for one more file.

mod toml_value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use turnlane_protocol::input::{ImageInput, ImageSource, UserInput};
use turnlane_protocol::policy::{ApprovalPolicy, NetworkAccess, SandboxPolicy, WorkspaceWrite};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::files::TurnFiles;
use crate::codex_program::{RefusedKey, passed_config};
use crate::outcome::EngineError;
use crate::request::{TurnKind, TurnRequest, TurnSettings};

/// Pictures of one turn.
const IMAGES_MAX: usize = 20;
/// Bytes of one picture inside a data URL.
const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Bytes of one argument; the system takes no more than 128 KiB.
const ARGUMENT_BYTES_MAX: usize = 120 * 1024;

/// The prompt of a continued turn. `codex exec` takes no turn without one; the message of the turn that
/// was cut, and what was done about it, are in Codex's history.
const CONTINUE: &str = "The server stopped while you worked on the previous message. Continue that work \
    from where it stood. Do not repeat steps that are done; a command that ran at that moment may have \
    run in part.";

/// A turn that `codex exec` cannot run.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("engine 'codex-exec' cannot {0}")]
    Unsupported(String),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Key(#[from] RefusedKey),
    #[error("cannot write the files of the turn: {0}")]
    Files(#[from] std::io::Error),
}

impl CommandError {
    pub(super) fn to_error(&self) -> EngineError {
        let (info, kind) = match self {
            Self::Key(refused) => return refused.to_error(),
            Self::Unsupported(_) => (CodexErrorInfo::Other, ErrorKind::Unsupported),
            Self::Invalid(_) => (CodexErrorInfo::BadRequest, ErrorKind::BadRequest),
            Self::Files(_) => (CodexErrorInfo::Other, ErrorKind::EngineUnavailable),
        };
        EngineError::new(self.to_string(), info, kind)
    }
}

/// A turn as its child is given it.
#[derive(Debug)]
pub(super) struct ExecCommand {
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) prompt: String,
    /// Removed when the child has ended.
    pub(super) files: TurnFiles,
}

/// Makes the command of a turn and writes its files; blocks.
///
/// `thread_id` is the thread to resume; none starts a new one. `bypass` is `engine.codex-exec.bypass`.
pub(super) fn prepare(
    request: &TurnRequest,
    thread_id: Option<&str>,
    bypass: bool,
    temporary: PathBuf,
) -> Result<ExecCommand, CommandError> {
    match (request.kind, thread_id) {
        (TurnKind::Turn, _) | (TurnKind::Continue, Some(_)) => {}
        (TurnKind::Continue, None) => {
            return Err(unsupported(
                "continue a turn whose Codex thread is not known",
            ));
        }
        (TurnKind::Compact, _) => return Err(unsupported("run turns without input")),
    }
    let settings = &request.settings;
    let mut command = ExecCommand {
        args: Vec::new(),
        cwd: PathBuf::from(&settings.cwd),
        prompt: prompt(request)?,
        files: TurnFiles::new(temporary),
    };
    command.push(["exec", "--json"]);
    command.add_settings(settings)?;
    command.add_sandbox(settings, bypass)?;
    command.push(["--skip-git-repo-check"]);
    if let Some(schema) = &settings.output_schema {
        let schema = schema.to_string();
        let file = command.files.write("schema.json", schema.as_bytes())?;
        command.push(["--output-schema"]);
        command.args.push(file.into());
    }
    if let Some(thread_id) = thread_id {
        command.push(["resume", thread_id]);
    }
    let images = command.images(&request.input)?;
    if images.is_empty() {
        command.push(["-"]);
    }
    for image in images {
        command.push(["--image"]);
        command.args.push(image.into());
    }
    match command
        .args
        .iter()
        .find(|argument| argument.len() > ARGUMENT_BYTES_MAX)
    {
        None => Ok(command),
        Some(_) => Err(invalid("a setting is longer than an argument may be")),
    }
}

/// Returns the reason why no turn with these settings can run, if there is one; blocks.
pub(super) fn check_settings(
    settings: &TurnSettings,
    bypass: bool,
    temporary: PathBuf,
) -> Result<(), CommandError> {
    let mut command = ExecCommand {
        args: Vec::new(),
        cwd: PathBuf::from(&settings.cwd),
        prompt: String::new(),
        files: TurnFiles::new(temporary),
    };
    command.add_settings(settings)?;
    command.add_sandbox(settings, bypass)
}

/// The text that the child reads from standard input; also how reconciliation knows the turn again.
pub(super) fn prompt(request: &TurnRequest) -> Result<String, CommandError> {
    let mut texts = Vec::new();
    for part in &request.input {
        match part {
            UserInput::Text { text, .. } => texts.push(text.clone()),
            UserInput::Skill { name, path } => texts.push(format!("Use the skill {name}: {path}")),
            UserInput::Mention { name, path } => texts.push(format!("@{name}: {path}")),
            UserInput::Image(_) | UserInput::LocalImage { .. } => {}
            UserInput::Audio { .. } | UserInput::LocalAudio { .. } => {
                return Err(unsupported("pass on sound"));
            }
        }
    }
    let input = match request.kind {
        TurnKind::Continue => CONTINUE.to_owned(),
        TurnKind::Turn | TurnKind::Compact => texts.join("\n"),
    };
    let context = request.context.iter().map(String::as_str);
    let parts: Vec<_> = context.chain([input.as_str()]).collect();
    Ok(parts.join("\n\n"))
}

impl ExecCommand {
    fn push<const N: usize>(&mut self, arguments: [&str; N]) {
        self.args.extend(arguments.map(OsString::from));
    }

    fn push_config(&mut self, key: &str, value: &serde_json::Value) -> Result<(), CommandError> {
        if key.is_empty() || key.contains('=') {
            return Err(invalid(&format!(
                "`{key}` is not a key of the configuration"
            )));
        }
        // Null stands for a key that is not set.
        if let Some(value) = toml_value::write(value) {
            let argument = format!("{key}={value}");
            self.push(["-c", argument.as_str()]);
        }
        Ok(())
    }

    fn add_settings(&mut self, settings: &TurnSettings) -> Result<(), CommandError> {
        match settings.approval_policy {
            ApprovalPolicy::Untrusted => {
                return Err(unsupported(
                    "ask for approvals, which approval policy `untrusted` needs; use engine 'codex'",
                ));
            }
            ApprovalPolicy::OnRequest | ApprovalPolicy::Never | ApprovalPolicy::Granular(_) => {}
        }
        if settings.environments.as_ref().is_some_and(Vec::is_empty) {
            return Err(unsupported("run a turn without commands and files"));
        }
        if !settings.model.is_empty() {
            self.push(["-m", settings.model.as_str()]);
        }
        for (key, value) in &passed_config(settings)? {
            self.push_config(key, value)?;
        }
        // After the thread's keys, since the last one wins.
        let named = [
            ("model_provider", Some(settings.provider.clone())),
            ("model_reasoning_effort", settings.effort.clone()),
            ("service_tier", settings.service_tier.clone()),
            (
                "developer_instructions",
                settings.developer_instructions.clone(),
            ),
            ("approval_policy", Some("never".to_owned())),
        ];
        for (key, value) in named {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.push_config(key, &value.into())?;
            }
        }
        if let Some(summary) = settings.summary {
            let summary = serde_json::to_value(summary).unwrap_or_default();
            self.push_config("model_reasoning_summary", &summary)?;
        }
        if let Some(text) = &settings.base_instructions {
            let file = self.files.write("instructions.md", text.as_bytes())?;
            let file = file.to_string_lossy().into_owned();
            self.push_config("model_instructions_file", &file.into())?;
        }
        Ok(())
    }

    fn add_sandbox(&mut self, settings: &TurnSettings, bypass: bool) -> Result<(), CommandError> {
        let is_open = match &settings.sandbox_policy {
            SandboxPolicy::ReadOnly { network_access } => {
                if *network_access {
                    return Err(unsupported("open the network in a read-only sandbox"));
                }
                self.push(["-s", "read-only"]);
                false
            }
            SandboxPolicy::WorkspaceWrite(limits) => {
                self.add_workspace(limits)?;
                false
            }
            SandboxPolicy::DangerFullAccess => true,
            SandboxPolicy::ExternalSandbox { network_access } => {
                if *network_access == NetworkAccess::Restricted {
                    return Err(unsupported("close the network without a sandbox"));
                }
                true
            }
        };
        if is_open && settings.requires_sandbox {
            return Err(unsupported(
                "run without a sandbox for a caller that must use one",
            ));
        }
        if is_open && bypass {
            self.push(["--dangerously-bypass-approvals-and-sandbox"]);
        } else if is_open {
            self.push(["-s", "danger-full-access"]);
        }
        Ok(())
    }

    fn add_workspace(&mut self, limits: &WorkspaceWrite) -> Result<(), CommandError> {
        let switches = [
            ("network_access", limits.network_access),
            ("exclude_tmpdir_env_var", limits.exclude_tmpdir_env_var),
            ("exclude_slash_tmp", limits.exclude_slash_tmp),
        ];
        // All of them, so that the user's file cannot open what the thread's policy closes.
        for (name, value) in switches {
            self.push_config(&format!("sandbox_workspace_write.{name}"), &value.into())?;
        }
        self.push_config(
            "sandbox_workspace_write.writable_roots",
            &serde_json::json!([]),
        )?;
        self.push(["-s", "workspace-write"]);
        for root in &limits.writable_roots {
            self.push(["--add-dir", root.as_str()]);
        }
        Ok(())
    }

    /// The paths of the pictures, in their order.
    fn images(&mut self, input: &[UserInput]) -> Result<Vec<PathBuf>, CommandError> {
        let mut images = Vec::new();
        for part in input {
            let name = format!("{}", images.len() + 1);
            match part {
                UserInput::Image(image) => images.push(self.inline_image(image, &name)?),
                UserInput::LocalImage { path, .. } => {
                    let path = self.cwd.join(path);
                    images.push(self.without_comma(path, &name)?);
                }
                _ => {}
            }
        }
        if images.len() > IMAGES_MAX {
            return Err(invalid(&format!(
                "a turn takes at most {IMAGES_MAX} images"
            )));
        }
        Ok(images)
    }

    fn inline_image(&mut self, image: &ImageInput, name: &str) -> Result<PathBuf, CommandError> {
        let ImageSource::Url(url) = &image.source else {
            return Err(unsupported("pass on an image by its file id"));
        };
        let wrong = || invalid("an image URL must be a base64 data URL");
        let inside = url
            .get(..5)
            .filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
        let inside = inside.and(url.get(5..)).ok_or_else(wrong)?;
        let (head, encoded) = inside.split_once(',').ok_or_else(wrong)?;
        let kind = head.strip_suffix(";base64").ok_or_else(wrong)?;
        if encoded.len() / 4 > IMAGE_BYTES_MAX / 3 + 1 {
            return Err(invalid("an image is larger than 5 MiB"));
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| wrong())?;
        let extension = match kind {
            "image/jpeg" => "jpg",
            "image/gif" => "gif",
            "image/webp" => "webp",
            _ => "png",
        };
        let path = self.files.write(&format!("{name}.{extension}"), &bytes)?;
        checked_path(path)
    }

    /// Codex splits the value of `--image` at commas.
    fn without_comma(&mut self, path: PathBuf, name: &str) -> Result<PathBuf, CommandError> {
        if !has_comma(&path) {
            return Ok(path);
        }
        let extension = path
            .extension()
            .map(|end| end.to_string_lossy().into_owned());
        let extension = extension
            .filter(|end| !end.contains(','))
            .unwrap_or_default();
        let link = self.files.link(&format!("{name}.{extension}"), &path)?;
        checked_path(link)
    }
}

fn checked_path(path: PathBuf) -> Result<PathBuf, CommandError> {
    if has_comma(&path) {
        return Err(unsupported(
            "pass on images while the temporary directory has a comma in its path",
        ));
    }
    Ok(path)
}

fn has_comma(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b',')
}

fn unsupported(what: &str) -> CommandError {
    CommandError::Unsupported(what.to_owned())
}

fn invalid(what: &str) -> CommandError {
    CommandError::Invalid(what.to_owned())
}

#[cfg(test)]
mod tests;
