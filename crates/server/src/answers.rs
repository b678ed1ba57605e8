//! Answers about account, models, configuration and what else a server has, made of facts.
//!
//! The invariant here: an answer is a pure function of [`Facts`] and the params, and has every member
//! that the terminal UI decodes; what Turnlane does not have is an empty list, never an unknown
//! method, because the UI waits for some of them. No secret leaves: see `redact`.
//!
//! Where facts come from is the binary's business, behind [`Defaults`](crate::Defaults).

mod redact;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::method::config_read::SHARED_KEYS;
use turnlane_protocol::method::{
    Account, AccountReadAnswer, AccountReadParams, CatalogListParams, CollaborationModeListAnswer,
    CollaborationModeMask, ConfigReadAnswer, ConfigReadParams, ConfigRequirementsReadAnswer,
    ExperimentalFeatureListAnswer, GovCloudAnswer, HooksEntry, HooksListAnswer, HooksListParams,
    InputModality, McpServerStatusListAnswer, ModeKind, Model, ModelListAnswer, ModelListParams,
    NoParams, PermissionProfile, PermissionProfileListAnswer, PluginListAnswer, PluginListParams,
    RateLimitsReadAnswer, ReasoningEffortOption, SkillsEntry, SkillsListAnswer, SkillsListParams,
};

use crate::connection::Connection;

/// How many rows of a list are shown when the caller does not say, and at most.
const ROWS_MAX: usize = 100;

/// How hard a model can think of which nothing is known.
const EFFORTS: [(&str, &str); 3] = [
    ("low", "Answers quickly"),
    ("medium", "Balances speed and depth"),
    ("high", "Thinks longer about hard problems"),
];

/// How hard a model thinks of which nothing is known.
const EFFORT_DEFAULT: &str = "medium";

/// The permission profiles there are, in the order they are shown.
const PROFILES: [&str; 3] = [":read-only", ":workspace", ":danger-full-access"];

/// What is known about configuration, model and account.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The configured model.
    pub model: String,
    /// Who serves it.
    pub provider: String,
    /// Further models that are configured.
    pub more_models: Vec<String>,
    /// How hard the model can think, the word and what it means; a usual list when empty.
    pub efforts: Vec<(String, String)>,
    /// How hard it thinks when nobody chooses.
    pub effort: Option<String>,
    /// Whether the provider's key is there.
    pub key: Key,
    /// The variables that the key is looked for in.
    pub key_variables: Vec<String>,
    /// What the provider last said of its limits, as Codex writes it.
    pub rate_limits: Map<String, Value>,
    /// The effective configuration; secrets are taken out here.
    pub config: Map<String, Value>,
}

/// Whether the key of the configured provider is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// It is not.
    #[default]
    Absent,
    /// The provider needs none.
    NotNeeded,
    /// It is.
    Present,
}

fn facts(cx: &Connection, cwd: Option<&str>) -> Facts {
    cx.shared().options.defaults.facts(cwd)
}

/// `account/read`
pub(crate) async fn account_read(
    cx: Arc<Connection>,
    _: AccountReadParams,
) -> Result<AccountReadAnswer, ErrorObject> {
    Ok(account(&facts(&cx, None)))
}

/// `account/rateLimits/read`
pub(crate) async fn rate_limits_read(
    cx: Arc<Connection>,
    _: NoParams,
) -> Result<RateLimitsReadAnswer, ErrorObject> {
    Ok(RateLimitsReadAnswer {
        rate_limits: facts(&cx, None).rate_limits,
        rate_limits_by_limit_id: None,
    })
}

/// `account/bedrock/checkGovCloudRequirements`
pub(crate) async fn check_gov_cloud(
    _: Arc<Connection>,
    _: NoParams,
) -> Result<GovCloudAnswer, ErrorObject> {
    Ok(GovCloudAnswer::default())
}

/// `model/list`
pub(crate) async fn model_list(
    cx: Arc<Connection>,
    params: ModelListParams,
) -> Result<ModelListAnswer, ErrorObject> {
    let models = models(&facts(&cx, None));
    let (data, next_cursor) = page(models, params.cursor.as_deref(), params.limit)?;
    Ok(ModelListAnswer { data, next_cursor })
}

/// `config/read`
pub(crate) async fn config_read(
    cx: Arc<Connection>,
    params: ConfigReadParams,
) -> Result<ConfigReadAnswer, ErrorObject> {
    Ok(config(facts(&cx, params.cwd.as_deref())))
}

/// `configRequirements/read`
pub(crate) async fn config_requirements_read(
    _: Arc<Connection>,
    _: NoParams,
) -> Result<ConfigRequirementsReadAnswer, ErrorObject> {
    Ok(ConfigRequirementsReadAnswer::default())
}

/// `hooks/list`
pub(crate) async fn hooks_list(
    cx: Arc<Connection>,
    params: HooksListParams,
) -> Result<HooksListAnswer, ErrorObject> {
    let entry = |cwd| HooksEntry {
        cwd,
        ..HooksEntry::default()
    };
    let data = asked_or_own(&cx, params.cwds);
    Ok(HooksListAnswer {
        data: data.into_iter().map(entry).collect(),
    })
}

/// `skills/list`
pub(crate) async fn skills_list(
    cx: Arc<Connection>,
    params: SkillsListParams,
) -> Result<SkillsListAnswer, ErrorObject> {
    let entry = |cwd| SkillsEntry {
        cwd,
        ..SkillsEntry::default()
    };
    let data = asked_or_own(&cx, params.cwds);
    Ok(SkillsListAnswer {
        data: data.into_iter().map(entry).collect(),
    })
}

/// `collaborationMode/list`
pub(crate) async fn collaboration_mode_list(
    _: Arc<Connection>,
    _: NoParams,
) -> Result<CollaborationModeListAnswer, ErrorObject> {
    Ok(collaboration_modes())
}

/// `plugin/list`
pub(crate) async fn plugin_list(
    _: Arc<Connection>,
    _: PluginListParams,
) -> Result<PluginListAnswer, ErrorObject> {
    Ok(PluginListAnswer::default())
}

/// `mcpServerStatus/list`
pub(crate) async fn mcp_server_status_list(
    _: Arc<Connection>,
    _: CatalogListParams,
) -> Result<McpServerStatusListAnswer, ErrorObject> {
    Ok(McpServerStatusListAnswer::default())
}

/// `permissionProfile/list`
pub(crate) async fn permission_profile_list(
    _: Arc<Connection>,
    params: CatalogListParams,
) -> Result<PermissionProfileListAnswer, ErrorObject> {
    let profiles = PROFILES.map(|id| PermissionProfile {
        id: id.to_owned(),
        description: None,
        allowed: true,
    });
    let (data, next_cursor) = page(profiles.into(), params.cursor.as_deref(), params.limit)?;
    Ok(PermissionProfileListAnswer { data, next_cursor })
}

/// `experimentalFeature/list`
pub(crate) async fn experimental_feature_list(
    _: Arc<Connection>,
    _: CatalogListParams,
) -> Result<ExperimentalFeatureListAnswer, ErrorObject> {
    Ok(ExperimentalFeatureListAnswer::default())
}

/// The directories asked for, or the server's own.
fn asked_or_own(cx: &Connection, asked: Vec<String>) -> Vec<String> {
    if asked.is_empty() {
        let own = &cx.shared().options.cwd;
        return vec![own.to_string_lossy().into_owned()];
    }
    asked
}

fn account(facts: &Facts) -> AccountReadAnswer {
    AccountReadAnswer {
        account: match facts.key {
            Key::Present => Some(Account::ApiKey),
            Key::Absent | Key::NotNeeded => None,
        },
        requires_openai_auth: false,
        workspace_routing: None,
    }
}

fn models(facts: &Facts) -> Vec<Model> {
    let own = std::iter::once(&facts.model);
    let more = facts
        .more_models
        .iter()
        .filter(|model| **model != facts.model);
    let mut models: Vec<Model> = own.chain(more).map(|name| model(facts, name)).collect();
    if let Some(first) = models.first_mut() {
        first.is_default = true;
    }
    models
}

fn model(facts: &Facts, name: &str) -> Model {
    let option = |word: &str, description: &str| ReasoningEffortOption {
        reasoning_effort: word.to_owned(),
        description: description.to_owned(),
    };
    let mut efforts: Vec<_> = facts
        .efforts
        .iter()
        .map(|(word, description)| option(word, description))
        .collect();
    if efforts.is_empty() {
        efforts.extend(EFFORTS.map(|(word, description)| option(word, description)));
    }
    let effort = facts.effort.as_deref().unwrap_or(EFFORT_DEFAULT);
    if !efforts.iter().any(|known| known.reasoning_effort == effort) {
        efforts.push(option(effort, "As configured"));
    }
    Model {
        id: name.to_owned(),
        model: name.to_owned(),
        display_name: name.to_owned(),
        description: format!("Served by {}", facts.provider),
        hidden: false,
        is_default: false,
        supported_reasoning_efforts: efforts,
        default_reasoning_effort: effort.to_owned(),
        input_modalities: vec![InputModality::Text, InputModality::Image],
        supports_personality: false,
        service_tiers: Vec::new(),
        additional_speed_tiers: Vec::new(),
        upgrade: None,
        upgrade_info: None,
        availability_nux: None,
        default_service_tier: None,
        model_specialty: None,
        available_access_programs: None,
        multi_agent_version: None,
    }
}

fn config(facts: Facts) -> ConfigReadAnswer {
    let mut config = facts.config;
    redact::table(&mut config);
    for key in SHARED_KEYS {
        config.entry(*key).or_insert(Value::Null);
    }
    for (key, value) in [("model", facts.model), ("model_provider", facts.provider)] {
        if config.get(key).is_none_or(Value::is_null) {
            config.insert(key.to_owned(), Value::from(value));
        }
    }
    ConfigReadAnswer {
        config,
        origins: Map::new(),
        layers: None,
    }
}

fn collaboration_modes() -> CollaborationModeListAnswer {
    let mask = |name: &str, mode, effort: Option<&str>| CollaborationModeMask {
        name: name.to_owned(),
        mode: Some(mode),
        model: None,
        reasoning_effort: effort.map(str::to_owned),
    };
    CollaborationModeListAnswer {
        data: vec![
            mask("Plan", ModeKind::Plan, Some("medium")),
            mask("Default", ModeKind::Default, None),
        ],
    }
}

/// A page of rows that are all there; a cursor is how many come before it.
fn page<T>(
    rows: Vec<T>,
    cursor: Option<&str>,
    limit: Option<u32>,
) -> Result<(Vec<T>, Option<String>), ErrorObject> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .parse::<usize>()
            .ok()
            .filter(|start| *start <= rows.len())
            .ok_or_else(|| ErrorObject::invalid_cursor(cursor))?,
    };
    let limit = limit.map_or(ROWS_MAX, |limit| {
        usize::try_from(limit)
            .unwrap_or(ROWS_MAX)
            .clamp(1, ROWS_MAX)
    });
    let end = rows.len().min(start.saturating_add(limit));
    let next = (end < rows.len()).then(|| end.to_string());
    let data = rows.into_iter().skip(start).take(limit).collect();
    Ok((data, next))
}
