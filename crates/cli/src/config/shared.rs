//! Keys that Turnlane shares with Codex, and the tables that engines read for themselves.
//!
//! They are kept as JSON and laid over each other key by key, tables table by table, so that a later
//! layer changes what it names and nothing else. The invariant here: the kind of every value we know
//! is checked where it was written, with file, line and key; what it means is decided by its reader.

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::section::Source;

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Flag,
    Texts,
    Table,
    /// Checked by its reader: one of several shapes, or a table of others' making.
    Any,
}

/// Every key of the shared configuration, sorted.
const KEYS: [(&str, Kind); 34] = [
    ("agents", Kind::Any),
    ("approval_policy", Kind::Any),
    ("compact_prompt", Kind::Text),
    ("default_permissions", Kind::Text),
    ("features", Kind::Table),
    ("hooks", Kind::Any),
    ("mcp_servers", Kind::Table),
    ("model", Kind::Text),
    ("model_auto_compact_token_limit", Kind::Number),
    ("model_context_window", Kind::Number),
    ("model_instructions_file", Kind::Text),
    ("model_provider", Kind::Text),
    ("model_providers", Kind::Table),
    ("model_reasoning_effort", Kind::Text),
    ("model_reasoning_summary", Kind::Text),
    ("model_verbosity", Kind::Text),
    ("native", Kind::Table),
    ("openai_base_url", Kind::Text),
    ("oss_provider", Kind::Text),
    ("permissions", Kind::Table),
    ("personality", Kind::Text),
    ("profile", Kind::Text),
    ("profiles", Kind::Table),
    ("project_doc_fallback_filenames", Kind::Texts),
    ("project_doc_max_bytes", Kind::Number),
    ("project_root_markers", Kind::Texts),
    ("projects", Kind::Table),
    ("sandbox_mode", Kind::Text),
    ("sandbox_workspace_write", Kind::Table),
    ("service_tier", Kind::Text),
    ("shell_environment_policy", Kind::Table),
    ("show_raw_agent_reasoning", Kind::Flag),
    ("tool_output_token_limit", Kind::Number),
    ("tools", Kind::Any),
];

/// Keys of Codex that decide something there and nothing here yet, sorted.
const WITHOUT_EFFECT: [(&str, &str); 9] = [
    ("agents", "agents of other roles are not supported yet"),
    ("apps", "apps are not supported yet"),
    ("mcp_servers", "MCP servers are not started yet"),
    ("memories", "memories are not kept yet"),
    ("notify", "no program is told of the end of a turn yet"),
    ("plugins", "plugins are not supported yet"),
    ("review_model", "reviews are not supported yet"),
    ("skills", "skills are not supported yet"),
    ("web_search", "there is no web search yet"),
];

/// Why a key of Codex has no effect here; none where it has one, or where nothing is asked for.
pub(super) fn without_effect(key: &str, value: &DeValue<'_>) -> Option<&'static str> {
    let (_, why) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == key)?;
    let asks = match value {
        DeValue::Table(table) => !table.is_empty(),
        DeValue::Array(list) => !list.is_empty(),
        DeValue::String(word) => word.as_ref() != "disabled",
        DeValue::Boolean(flag) => *flag,
        _ => true,
    };
    asks.then_some(*why)
}

/// Whether Codex knows the key and it has no effect here.
pub(super) fn is_without_effect(key: &str) -> bool {
    WITHOUT_EFFECT.iter().any(|(known, _)| *known == key)
}

/// Whether a key is shared, or a table for engines.
pub(super) fn knows(key: &str) -> bool {
    KEYS.iter().any(|(known, _)| *known == key)
}

/// Lays one key of a layer over what the layers below said.
pub(super) fn lay(
    below: &mut Map<String, Value>,
    source: &Source<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> anyhow::Result<()> {
    check(source, key, value)?;
    merge(below, key, json(value.get_ref()));
    Ok(())
}

fn check(source: &Source<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> anyhow::Result<()> {
    let found = KEYS.iter().find(|(known, _)| *known == key);
    let Some((_, kind)) = found else {
        return Ok(());
    };
    let given = value.get_ref();
    let (fits, wanted) = match kind {
        Kind::Text => (given.is_str(), "a string"),
        Kind::Number => (given.is_integer(), "a whole number"),
        Kind::Flag => (given.is_bool(), "true or false"),
        Kind::Texts => (is_texts(given), "a list of strings"),
        Kind::Table => (given.is_table(), "a table"),
        Kind::Any => (true, ""),
    };
    if fits {
        return words(source, key, value);
    }
    Err(source.error(
        Some(value.span().start),
        &format!("{key}: expected {wanted}, found {}", found_in_words(given)),
    ))
}

/// Keys with a few words for values.
fn words(source: &Source<'_>, key: &str, value: &Spanned<DeValue<'_>>) -> anyhow::Result<()> {
    let words: &[&str] = match key {
        "sandbox_mode" => &["read-only", "workspace-write", "danger-full-access"],
        "approval_policy" => &["untrusted", "on-request", "on-failure", "never"],
        "model_reasoning_summary" => &["auto", "concise", "detailed", "none"],
        _ => return Ok(()),
    };
    match value.get_ref() {
        DeValue::String(given) if !words.contains(&given.as_ref()) => {
            let all = words.join(", ");
            let message = format!("{key}: must be one of {all}, not `{given}`");
            Err(source.error(Some(value.span().start), &message))
        }
        _ => Ok(()),
    }
}

fn is_texts(value: &DeValue<'_>) -> bool {
    let list = value.as_array();
    list.is_some_and(|list| list.iter().all(|value| value.get_ref().is_str()))
}

pub(super) fn found_in_words(value: &DeValue<'_>) -> &'static str {
    match value.type_str() {
        "integer" => "a whole number",
        "string" => "a string",
        "boolean" => "true or false",
        "array" => "a list",
        "table" => "a table",
        _ => "something else",
    }
}

/// Tables are joined, everything else is replaced.
pub(super) fn merge(below: &mut Map<String, Value>, key: &str, value: Value) {
    match (below.get_mut(key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            for (key, value) in new {
                merge(old, &key, value);
            }
        }
        (_, value) => {
            below.insert(key.to_owned(), value);
        }
    }
}

/// The profile that is chosen, laid over the rest, as Codex does it.
pub(super) fn with_profile(mut shared: Map<String, Value>) -> anyhow::Result<Map<String, Value>> {
    let profiles = shared.remove("profiles");
    let Some(Value::String(chosen)) = shared.remove("profile") else {
        return Ok(shared);
    };
    let profile = profiles.as_ref().and_then(|all| all.get(&chosen));
    let Some(Value::Object(profile)) = profile else {
        anyhow::bail!("profile: there is no table `profiles.{chosen}`");
    };
    let chosen = SandboxKeys::of(|key| profile.contains_key(key));
    for (key, value) in profile {
        merge(&mut shared, key, value.clone());
    }
    chosen.settle(&mut shared);
    Ok(shared)
}

/// The keys of one layer that choose the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SandboxKeys {
    /// `default_permissions`.
    pub(super) profile: bool,
    /// `sandbox_mode`.
    pub(super) mode: bool,
}

impl SandboxKeys {
    /// The keys that a layer has.
    pub(super) fn of(has: impl Fn(&str) -> bool) -> Self {
        Self {
            profile: has("default_permissions"),
            mode: has("sandbox_mode"),
        }
    }

    /// The keys of two parts of one layer.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            profile: self.profile || other.profile,
            mode: self.mode || other.mode,
        }
    }

    /// Removes the key that this layer overrides: of both in one layer the profile wins.
    pub(super) fn settle(self, shared: &mut Map<String, Value>) {
        if self.profile {
            shared.remove("sandbox_mode");
        } else if self.mode {
            shared.remove("default_permissions");
        }
    }
}

pub(super) fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or_else(|_| Value::String(integer.as_str().to_owned()), Value::from),
        DeValue::Float(float) => float
            .as_str()
            .parse::<f64>()
            .map_or_else(|_| Value::String(float.as_str().to_owned()), Value::from),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(list) => list.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(object(table)),
    }
}

fn object(table: &DeTable<'_>) -> Map<String, Value> {
    let members = table.iter();
    let members = members.map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())));
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_sorted_and_told_once() {
        assert!(KEYS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(WITHOUT_EFFECT.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_later_layer_changes_what_it_names_and_nothing_else() {
        let mut shared = Map::new();
        merge(&mut shared, "p", serde_json::json!({"a": {"x": 1, "y": 2}}));
        merge(&mut shared, "p", serde_json::json!({"a": {"y": 3}, "b": 4}));
        let expected = serde_json::json!({"p": {"a": {"x": 1, "y": 3}, "b": 4}});
        assert_eq!(Value::Object(shared), expected);
    }

    #[test]
    fn a_profile_is_laid_over_the_rest_or_named_as_missing() {
        let text = "model = \"a\"\nmodel_provider = \"p\"\n[profiles.fast]\nmodel = \"b\"\n";
        let table = DeTable::parse(text).unwrap();
        let mut shared = object(table.get_ref());
        shared.insert("profile".into(), "fast".into());
        let laid = with_profile(shared.clone()).unwrap();
        assert_eq!(laid["model"], "b");
        assert_eq!(laid["model_provider"], "p");
        assert!(!laid.contains_key("profiles"));
        shared.insert("profile".into(), "slow".into());
        let error = with_profile(shared).unwrap_err().to_string();
        assert_eq!(error, "profile: there is no table `profiles.slow`");
    }
}
