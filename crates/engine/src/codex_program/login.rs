//! How Codex reaches its models: by its login, by a key, or by a provider that needs neither.
//!
//! The invariant here: a login is called missing only where nothing that can be seen stands in for it.
//! Codex has more ways to log in than a file and a variable; whatever cannot be read counts as there, and
//! Codex itself decides.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::CodexProgram;

/// Variables that Codex takes the key of its usual provider from.
const KEYS: [&str; 3] = ["CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"];
/// The provider that Codex uses where none is named.
const USUAL_PROVIDER: &str = "openai";
/// The configuration of all users of the machine.
const SYSTEM_CONFIG: &str = "/etc/codex/config.toml";

/// How Codex reaches its models, as far as it can be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodexLogin {
    /// The file of `codex login`.
    File(PathBuf),
    /// A variable with a key.
    Variable(String),
    /// A provider of the configuration, with a key of its own or none.
    Provider(String),
    /// Codex keeps it where we cannot look.
    Unseen,
    /// There is none; the text says what to do.
    Missing(String),
}

impl CodexProgram {
    /// Looks for the login that turns with this provider need; with none named, for that of the provider
    /// that Codex is configured with. Reads files.
    pub fn login(&self, provider: Option<&str>) -> CodexLogin {
        let Some(home) = self.codex_home() else {
            return CodexLogin::Unseen;
        };
        let mut configs = Vec::new();
        for file in [home.join("config.toml"), PathBuf::from(SYSTEM_CONFIG)] {
            match read(&file) {
                Ok(config) => configs.extend(config),
                Err(()) => return CodexLogin::Unseen,
            }
        }
        let variables = std::fs::read_to_string(home.join(".env")).unwrap_or_default();
        let is_set = |name: &str| {
            let is_given = self.variable(name).is_some_and(|value| !value.is_empty());
            // Codex reads this file by itself.
            is_given || variables.contains(name)
        };
        let found = judge(&configs, provider, is_set);
        match found {
            CodexLogin::Missing(_) if home.join("auth.json").exists() && needs_login(&found) => {
                CodexLogin::File(home.join("auth.json"))
            }
            found => found,
        }
    }
}

/// Says what to do about a missing login of the usual provider.
const LOG_IN: &str = "Codex has no login: run `codex login`, or set CODEX_API_KEY";

/// Whether a login of Codex, and no key of a provider, is what is missing.
fn needs_login(login: &CodexLogin) -> bool {
    matches!(login, CodexLogin::Missing(reason) if reason == LOG_IN)
}

/// What the configuration and the environment say, without the file of the login. The first configuration
/// that says something counts.
fn judge(
    configs: &[Map<String, Value>],
    provider: Option<&str>,
    is_set: impl Fn(&str) -> bool,
) -> CodexLogin {
    let configured = || configs.iter().find_map(configured_provider);
    let given = provider.filter(|provider| !provider.is_empty());
    let provider = given.map(str::to_owned).or_else(configured);
    let provider = provider.as_deref().unwrap_or(USUAL_PROVIDER);
    let entry = configs
        .iter()
        .find_map(|config| config.get("model_providers")?.get(provider)?.as_object());
    let wants_login = |entry: &Map<String, Value>| {
        let wants = entry.get("requires_openai_auth");
        wants.and_then(Value::as_bool) == Some(true)
    };
    match entry {
        Some(entry) if !wants_login(entry) => {
            let key = entry.get("env_key").and_then(Value::as_str);
            return match key.filter(|key| !is_set(key)) {
                Some(key) => CodexLogin::Missing(format!(
                    "the provider `{provider}` of Codex needs the variable {key}, which is not set"
                )),
                None => CodexLogin::Provider(provider.to_owned()),
            };
        }
        // A provider that is built into Codex, or that the thread itself describes.
        None if provider != USUAL_PROVIDER => return CodexLogin::Provider(provider.to_owned()),
        Some(_) | None => {}
    }
    if let Some(name) = KEYS.into_iter().find(|name| is_set(name)) {
        return CodexLogin::Variable(name.to_owned());
    }
    let names = |key: &str| configs.iter().any(|config| config.contains_key(key));
    if names("openai_base_url") || names("chatgpt_base_url") {
        return CodexLogin::Unseen;
    }
    let store = configs
        .iter()
        .find_map(|config| config.get("cli_auth_credentials_store")?.as_str());
    match store {
        None | Some("file") => CodexLogin::Missing(LOG_IN.to_owned()),
        Some(_) => CodexLogin::Unseen,
    }
}

fn configured_provider(config: &Map<String, Value>) -> Option<String> {
    let named =
        |table: &Map<String, Value>| Some(table.get("model_provider")?.as_str()?.to_owned());
    let profile = config.get("profile").and_then(Value::as_str);
    let profile = profile.and_then(|name| config.get("profiles")?.get(name)?.as_object());
    profile.and_then(named).or_else(|| named(config))
}

/// A configuration file; none where it does not exist, an error where it cannot be read.
fn read(file: &Path) -> Result<Option<Map<String, Value>>, ()> {
    match std::fs::read_to_string(file) {
        Ok(text) => parse(&text).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(()),
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, ()> {
    let table = DeTable::parse(text).map_err(|_bad| ())?;
    Ok(members(table.get_ref()))
}

fn members(table: &DeTable<'_>) -> Map<String, Value> {
    let member = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        let value = match value.get_ref() {
            DeValue::String(text) => Value::from(text.as_ref()),
            DeValue::Boolean(is_true) => Value::from(*is_true),
            DeValue::Table(table) => Value::Object(members(table)),
            // Nothing that is looked for here has another type.
            _ => Value::Null,
        };
        (name.as_ref().to_owned(), value)
    };
    table.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(config: &str, provider: Option<&str>, set: &[&str]) -> CodexLogin {
        let config = parse(config).unwrap();
        judge(&[config], provider, |name| set.contains(&name))
    }

    #[test]
    fn a_login_is_missing_only_where_nothing_stands_in_for_it() {
        assert!(needs_login(&login("", None, &[])));
        let key = login("", None, &["CODEX_API_KEY"]);
        assert_eq!(key, CodexLogin::Variable("CODEX_API_KEY".to_owned()));
        let keyring = "cli_auth_credentials_store = 'keyring'";
        assert_eq!(login(keyring, None, &[]), CodexLogin::Unseen);
        let stored = "cli_auth_credentials_store = 'file'";
        assert!(needs_login(&login(stored, None, &[])));
    }

    #[test]
    fn a_provider_of_its_own_needs_its_key_and_no_login() {
        let config = "model_provider = 'mock'\n[model_providers.mock]\nname = 'mock'\nenv_key = 'MOCK'\n\
                      [model_providers.free]\nname = 'free'\n\
                      [model_providers.gate]\nrequires_openai_auth = true\n";
        let provider = |name: &str| CodexLogin::Provider(name.to_owned());
        assert_eq!(login(config, None, &["MOCK"]), provider("mock"));
        assert!(
            matches!(login(config, None, &[]), CodexLogin::Missing(why) if why.contains("MOCK"))
        );
        assert_eq!(login(config, Some("free"), &[]), provider("free"));
        assert_eq!(login(config, Some("elsewhere"), &[]), provider("elsewhere"));
        assert!(needs_login(&login(config, Some("gate"), &[])));
        let profile = "profile = 'p'\n[profiles.p]\nmodel_provider = 'ollama'\n";
        assert_eq!(login(profile, None, &[]), provider("ollama"));
    }
}
