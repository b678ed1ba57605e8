//! Lists of what a server offers besides models: hooks, skills, modes, plugins, tool servers,
//! permission profiles, features.
//!
//! What Turnlane does not have is an empty list and not an unknown method, because the terminal UI
//! waits for some of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ModeKind;
use super::thread_resume::is_false;

/// Lists the hooks that apply in some directories.
pub const HOOKS_LIST: &str = "hooks/list";
/// Lists the skills that apply in some directories.
pub const SKILLS_LIST: &str = "skills/list";
/// Lists the ways of working together.
pub const COLLABORATION_MODE_LIST: &str = "collaborationMode/list";
/// Lists plugins.
pub const PLUGIN_LIST: &str = "plugin/list";
/// Lists MCP servers and how they are.
pub const MCP_SERVER_STATUS_LIST: &str = "mcpServerStatus/list";
/// Lists named sets of permissions.
pub const PERMISSION_PROFILE_LIST: &str = "permissionProfile/list";
/// Lists what can be switched on.
pub const EXPERIMENTAL_FEATURE_LIST: &str = "experimentalFeature/list";

/// Params of [`HOOKS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HooksListParams {
    /// The directories; the server's own when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// The thread whose hooks are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// The answer to [`HOOKS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HooksListAnswer {
    /// One entry per directory asked for, in the same order.
    pub data: Vec<HooksEntry>,
}

/// The hooks of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HooksEntry {
    /// The directory.
    pub cwd: String,
    /// The hooks, as Codex describes them.
    pub hooks: Vec<Map<String, Value>>,
    /// What a person should know of them.
    pub warnings: Vec<String>,
    /// What could not be read.
    pub errors: Vec<FileError>,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileError {
    /// The file.
    pub path: String,
    /// Why.
    pub message: String,
}

/// Params of [`SKILLS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SkillsListParams {
    /// The directories; the server's own when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// Read the files again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_reload: bool,
}

/// The answer to [`SKILLS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillsListAnswer {
    /// One entry per directory asked for, in the same order.
    pub data: Vec<SkillsEntry>,
}

/// The skills of a directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillsEntry {
    /// The directory.
    pub cwd: String,
    /// The skills, as Codex describes them.
    pub skills: Vec<Map<String, Value>>,
    /// What could not be read.
    pub errors: Vec<FileError>,
}

/// The answer to [`COLLABORATION_MODE_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollaborationModeListAnswer {
    /// The modes.
    pub data: Vec<CollaborationModeMask>,
}

/// What choosing a way of working together changes; written in snake case, as Codex does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollaborationModeMask {
    /// Its name towards people.
    pub name: String,
    /// Which one.
    pub mode: Option<ModeKind>,
    /// The model it is run with.
    pub model: Option<String>,
    /// How hard that thinks.
    pub reasoning_effort: Option<String>,
}

/// Params of [`PLUGIN_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginListParams {
    /// The directories whose plugins are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwds: Option<Vec<String>>,
}

/// The answer to [`PLUGIN_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginListAnswer {
    /// Where plugins come from, with them; none with us.
    pub marketplaces: Vec<Map<String, Value>>,
    /// What could not be read.
    #[serde(default)]
    pub marketplace_load_errors: Vec<Map<String, Value>>,
    /// Plugins to show first.
    #[serde(default)]
    pub featured_plugin_ids: Vec<String>,
}

/// Params of lists in pages that may be about a thread or a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CatalogListParams {
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// The answer to [`MCP_SERVER_STATUS_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatusListAnswer {
    /// The servers, as Codex describes them.
    pub data: Vec<Map<String, Value>>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// The answer to [`PERMISSION_PROFILE_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfileListAnswer {
    /// The profiles.
    pub data: Vec<PermissionProfile>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// A named set of permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionProfile {
    /// Its name.
    pub id: String,
    /// What it means.
    pub description: Option<String>,
    /// Whether it may be chosen.
    pub allowed: bool,
}

/// The answer to [`EXPERIMENTAL_FEATURE_LIST`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExperimentalFeatureListAnswer {
    /// The features, as Codex describes them.
    pub data: Vec<Map<String, Value>>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}
