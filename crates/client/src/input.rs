//! What is said to an agent: text, pictures, files.
//!
//! The invariant here: an input that says nothing is refused before any call, and a file that is not
//! there is found before any call when the server shares our disk.
//!
//! Files are not read here; the server does that.

use std::path::{Path, PathBuf};

pub use turnlane_protocol::input::{
    ByteRange, ImageDetail, ImageInput, ImageSource, TextElement, UserInput as InputItem,
};

use crate::core::Core;
use crate::error::{CallError, ThreadError, TurnError};

/// What is said to an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input(pub(crate) Vec<InputItem>);

impl Input {
    /// Its parts.
    pub fn items(&self) -> &[InputItem] {
        &self.0
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self(vec![InputItem::text(text)])
    }
}

impl From<&String> for Input {
    fn from(text: &String) -> Self {
        Self(vec![InputItem::text(text)])
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self(vec![InputItem::text(text)])
    }
}

impl From<InputItem> for Input {
    fn from(item: InputItem) -> Self {
        Self(vec![item])
    }
}

impl From<Vec<InputItem>> for Input {
    fn from(items: Vec<InputItem>) -> Self {
        Self(items)
    }
}

/// Something that goes with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attachment {
    /// A file named in the text, shown by user interfaces in their own way.
    AtPath {
        /// The file.
        path: PathBuf,
        /// What is shown in its place.
        placeholder: Option<String>,
    },
    /// A picture in a file.
    LocalImage(PathBuf),
    /// A picture by its URL.
    ImageUrl(String),
}

/// Why an input is not sent.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A file is not there.
    NotFound(PathBuf),
    /// The caller's argument makes no sense.
    Argument(CallError),
}

impl Refused {
    /// For callers that can only report a call.
    pub(crate) fn into_call(self) -> CallError {
        match self {
            Self::Argument(error) => error,
            Self::NotFound(path) => CallError::InvalidArgument {
                what: "input",
                reason: format!("attachment not found: {}", path.display()),
            },
        }
    }
}

impl From<Refused> for TurnError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound(path) => Self::AttachmentNotFound { path },
            Refused::Argument(error) => Self::Call(error),
        }
    }
}

impl From<Refused> for ThreadError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound(path) => Self::AttachmentNotFound { path },
            Refused::Argument(error) => Self::Call(error),
        }
    }
}

fn refused(what: &'static str, reason: &str) -> Refused {
    Refused::Argument(CallError::InvalidArgument {
        what,
        reason: reason.to_owned(),
    })
}

/// An input as it is sent: not empty, attachments added, paths resolved against the thread's `cwd`,
/// and there if the server is on this machine.
pub(crate) async fn prepare(
    core: &Core,
    input: Input,
    attachments: &[Attachment],
    cwd: &str,
) -> Result<Vec<InputItem>, Refused> {
    check(&input, attachments)?;
    let (items, paths) = resolve(input, attachments, Path::new(cwd))?;
    if is_local(core) {
        must_exist(paths).await?;
    }
    Ok(items)
}

/// The files of attachments alone: what a thread can check before its first turn.
pub(crate) async fn check_attachments(
    core: &Core,
    attachments: &[Attachment],
    cwd: &str,
) -> Result<(), Refused> {
    let (_, paths) = resolve(Input::default(), attachments, Path::new(cwd))?;
    if is_local(core) {
        must_exist(paths).await?;
    }
    Ok(())
}

/// Refuses an input without items, or with nothing but blank texts.
pub(crate) fn check(input: &Input, attachments: &[Attachment]) -> Result<(), Refused> {
    let is_blank = |item: &InputItem| match item {
        InputItem::Text { text, .. } => text.trim().is_empty(),
        _ => false,
    };
    if attachments.is_empty() && input.0.iter().all(is_blank) {
        return Err(refused("input", "turn input must not be empty"));
    }
    Ok(())
}

/// The items to send, and the files they name.
fn resolve(
    input: Input,
    attachments: &[Attachment],
    cwd: &Path,
) -> Result<(Vec<InputItem>, Vec<PathBuf>), Refused> {
    let mut paths = Vec::new();
    let mut absolute = |path: &Path| -> Result<String, Refused> {
        let path = cwd.join(path);
        let text = path.to_str().map(str::to_owned);
        paths.push(path);
        text.ok_or_else(|| refused("attachment", "paths must be UTF-8"))
    };
    let mut items = input.0;
    for item in &mut items {
        match item {
            InputItem::LocalImage { path, .. } | InputItem::LocalAudio { path } => {
                *path = absolute(Path::new(path))?;
            }
            _ => {}
        }
    }
    for attachment in attachments {
        items.push(match attachment {
            Attachment::AtPath { path, placeholder } => {
                absolute(path)?;
                // The agent works in the thread's directory, so the path stays as its user wrote it.
                at_path(&path.to_string_lossy(), placeholder.clone())
            }
            Attachment::LocalImage(path) => InputItem::LocalImage {
                path: absolute(path)?,
                detail: None,
            },
            Attachment::ImageUrl(url) => InputItem::Image(ImageInput {
                source: ImageSource::Url(url.clone()),
                detail: None,
            }),
        });
    }
    Ok((items, paths))
}

/// A text that is one element from end to end.
fn at_path(path: &str, placeholder: Option<String>) -> InputItem {
    let text = format!("@{path}");
    let byte_range = ByteRange {
        start: 0,
        end: text.len(),
    };
    InputItem::Text {
        text,
        text_elements: vec![TextElement {
            byte_range,
            placeholder,
        }],
    }
}

/// Whether the server sees the same files: it is a child, on a socket, in memory or on loopback.
fn is_local(core: &Core) -> bool {
    core.server()
        .is_ok_and(|server| is_local_endpoint(&server.endpoint))
}

fn is_local_endpoint(endpoint: &str) -> bool {
    let Some((_, rest)) = endpoint.split_once("://") else {
        return true;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The file system is asked on a thread that may wait.
async fn must_exist(paths: Vec<PathBuf>) -> Result<(), Refused> {
    if paths.is_empty() {
        return Ok(());
    }
    let missing = move || paths.into_iter().find(|path| !path.exists());
    match tokio::task::spawn_blocking(missing).await {
        Ok(Some(path)) => Err(Refused::NotFound(path)),
        // Not asked because the runtime ends: the call that follows says so.
        Ok(None) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
