//! `initialize`: who the client is, what it can take, and who we are.
//!
//! The invariant here: every version a client may compare is [`COMPAT_VERSION`], the Codex release
//! whose protocol we speak, because official SDKs refuse servers below theirs and cannot know our
//! numbers. The product's own version stands only in [`TurnlaneInfo::version`].
//!
//! What a capability switches on is decided where notifications are sent, not here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::WorkerId;

/// The Codex release whose protocol we speak.
pub const COMPAT_VERSION: &str = "0.166.0";

/// The version of Turnlane's own additions to the protocol.
pub const TURNLANE_PROTOCOL: u32 = 1;

/// Params of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Who calls.
    pub client_info: ClientInfo,
    /// What the client can take; none means nothing beyond the plain protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// Who calls; shown in the user agent and as originator of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientInfo {
    /// A name for programs; may be empty.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// The client's own version; may be empty.
    pub version: String,
}

/// What a client can take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Opens the methods and notifications that Codex calls experimental.
    pub experimental_api: bool,
    /// Exact method names this connection does not want; server requests may be named too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_out_notification_methods: Option<Vec<String>>,
    /// Present in clients that know Turnlane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnlane: Option<TurnlaneCapability>,
    /// Accepted without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_attestation: Option<bool>,
    /// Accepted without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
    /// Accepted without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explicit_gateway_oauth: Option<bool>,
    /// Accepted without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_server_openai_form_elicitation: Option<bool>,
}

impl Capabilities {
    /// Whether the client asked not to get `method`.
    pub fn opts_out_of(&self, method: &str) -> bool {
        self.opt_out_notification_methods
            .iter()
            .flatten()
            .any(|name| name == method)
    }

    /// Whether the client knows our enum values and fields.
    pub fn knows_turnlane(&self) -> bool {
        self.turnlane.is_some_and(|turnlane| turnlane.version >= 1)
    }

    /// Whether the client wants our own notifications.
    pub fn wants_turnlane_events(&self) -> bool {
        self.turnlane.is_some_and(TurnlaneCapability::wants_events)
    }
}

/// What a client knows of Turnlane's additions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TurnlaneCapability {
    /// 1: the client knows our enum values and fields. 0: it does not.
    pub version: u32,
    /// 1: it also wants our notifications. 0: it does not. Absent: as `version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u32>,
}

impl TurnlaneCapability {
    fn wants_events(self) -> bool {
        self.events.unwrap_or(self.version) >= 1
    }
}

/// The answer to `initialize`; of other servers only the user agent is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// Product, compatibility version and machine, as [`user_agent`] writes them.
    pub user_agent: String,
    /// What SDKs read first; Codex itself leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<ServerInfo>,
    /// The directory the server keeps its state in.
    #[serde(default)]
    pub codex_home: String,
    /// `unix` or `windows`.
    #[serde(default)]
    pub platform_family: String,
    /// `linux`, `macos` or `windows`.
    #[serde(default)]
    pub platform_os: String,
    /// Present in every answer of ours; a client knows us by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnlane: Option<TurnlaneInfo>,
}

/// The name and version clients compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerInfo {
    /// The product.
    pub name: String,
    /// The compatibility version.
    pub version: String,
}

impl ServerInfo {
    /// What Turnlane says of itself.
    pub fn turnlane() -> Self {
        Self {
            name: "turnlane".to_owned(),
            version: COMPAT_VERSION.to_owned(),
        }
    }
}

/// What a client that knows Turnlane wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnlaneInfo {
    /// The product's own version.
    pub version: String,
    /// [`TURNLANE_PROTOCOL`] of the server.
    pub protocol: u32,
    /// The process that answers.
    pub worker_id: WorkerId,
    /// The namespaces that are built: `queue`, `schedule`, `approval` and so on.
    pub features: Vec<String>,
}

/// The `userAgent` of our answer: `os` is name and release, as in `Linux 6.1.0`.
pub fn user_agent(os: &str, arch: &str, client: &ClientInfo) -> String {
    // Codex names the terminal after the parenthesis; a server has none.
    let ClientInfo { name, version, .. } = client;
    format!("turnlane/{COMPAT_VERSION} ({os}; {arch}) unknown ({name}; {version})")
}
