//! `fs/*` of `process.v1`. Paths are `file://` URIs.

use serde::{Deserialize, Serialize};

use super::Blob;
use super::sandbox::SandboxIntent;

/// `fs/getMetadata`
pub const GET_METADATA: &str = "fs/getMetadata";
/// `fs/readFile`
pub const READ_FILE: &str = "fs/readFile";
/// `fs/writeFile`
pub const WRITE_FILE: &str = "fs/writeFile";
/// `fs/createDirectory`
pub const CREATE_DIRECTORY: &str = "fs/createDirectory";
/// `fs/readDirectory`
pub const READ_DIRECTORY: &str = "fs/readDirectory";
/// `fs/canonicalize`
pub const CANONICALIZE: &str = "fs/canonicalize";
/// `fs/remove`
pub const REMOVE: &str = "fs/remove";
/// `fs/copy`
pub const COPY: &str = "fs/copy";
/// `fs/walk`
pub const WALK: &str = "fs/walk";
/// `fs/open`
pub const OPEN: &str = "fs/open";
/// `fs/readBlock`
pub const READ_BLOCK: &str = "fs/readBlock";
/// `fs/close`
pub const CLOSE: &str = "fs/close";

/// Params of calls that name one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathParams {
    /// Which.
    pub path: String,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
    /// True if absent; not every method looks at it.
    #[serde(default)]
    pub follow_symlinks: Option<bool>,
}

/// The answer to `fs/getMetadata`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
    /// A symbolic link.
    pub is_symlink: bool,
    /// In bytes.
    pub size: u64,
    /// Since 1970; 0 if unknown.
    pub created_at_ms: i64,
    /// Since 1970.
    pub modified_at_ms: i64,
}

/// The answer to `fs/readFile`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileAnswer {
    /// All of it.
    pub data_base64: Blob,
}

/// Params of `fs/writeFile`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// Which.
    pub path: String,
    /// Base64; decoded by the method, whose error names it.
    pub data_base64: String,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
    /// True if absent.
    #[serde(default)]
    pub follow_symlinks: Option<bool>,
}

/// Params of `fs/createDirectory` and `fs/remove`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeParams {
    /// Which.
    pub path: String,
    /// With parents, or with what is below; true if absent.
    #[serde(default)]
    pub recursive: Option<bool>,
    /// `fs/remove`: what is not there is no error; true if absent.
    #[serde(default)]
    pub force: Option<bool>,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
    /// True if absent.
    #[serde(default)]
    pub follow_symlinks: Option<bool>,
}

/// The answer to `fs/readDirectory`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadDirectoryAnswer {
    /// In no order.
    pub entries: Vec<DirectoryEntry>,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// Without the directory.
    pub file_name: String,
    /// A directory.
    pub is_directory: bool,
    /// A regular file.
    pub is_file: bool,
}

/// The answer to `fs/canonicalize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanonicalizeAnswer {
    /// Without links, as a URI.
    pub path: String,
}

/// Params of `fs/copy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// From.
    pub source_path: String,
    /// To.
    pub destination_path: String,
    /// Directories too.
    pub recursive: bool,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
}

/// Params of `fs/walk`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkParams {
    /// Where to begin.
    pub path: String,
    /// How far to go.
    pub options: WalkOptions,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
}

/// How far `fs/walk` goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkOptions {
    /// At most 64.
    pub max_depth: u64,
    /// At most 10,000.
    pub max_directories: u64,
    /// At most 50,000.
    pub max_entries: u64,
    /// Also into linked directories.
    pub follow_directory_symlinks: bool,
    /// Not into directories whose name begins with a dot.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

/// The answer to `fs/walk`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkAnswer {
    /// What was found.
    pub entries: Vec<WalkEntry>,
    /// What could not be read.
    pub errors: Vec<WalkError>,
    /// Whether a bound was reached.
    pub truncated: bool,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkEntry {
    /// As a URI.
    pub path: String,
    /// What it is.
    pub kind: WalkKind,
}

/// Directory or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WalkKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// One thing that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkError {
    /// As a URI.
    pub path: String,
    /// The system's text.
    pub message: String,
}

/// Params of `fs/open`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// The client's name for it.
    pub handle_id: String,
    /// Which.
    pub path: String,
    /// What may be touched.
    #[serde(default)]
    pub sandbox: Option<SandboxIntent>,
}

/// Params of `fs/readBlock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// Which.
    pub handle_id: String,
    /// From where.
    pub offset: u64,
    /// 1 to 1,048,576.
    pub len: u64,
}

/// The answer to `fs/readBlock`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockAnswer {
    /// What is there.
    pub chunk: Blob,
    /// Whether it is the end.
    pub eof: bool,
}

/// Params of `fs/close`, params and answer of `fs/open`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handle {
    /// Which.
    pub handle_id: String,
}
