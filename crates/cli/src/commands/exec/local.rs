//! `--oss`, `--local-provider` and `--ignore-rules`: flags that the configuration must not undo.
//!
//! The invariant here: with `--oss` or `--local-provider` the run talks to a server on this machine or
//! it is refused before a thread exists. The flags become overrides behind all others, with the
//! address that was checked; `native.local_only` makes the engine check it again for each turn, so
//! that neither a changed file nor a key that a thread was started with leads elsewhere.

use serde_json::Value;
use turnlane_engine::native::provider::{BaseUrl, Provider};

use super::refusal::Refused;
use crate::args::ExecOptions;
use crate::config::{Config, Layers};

/// The providers on this machine.
const PROVIDERS: [&str; 2] = ["ollama", "lmstudio"];
/// The model where none was named.
const MODEL: &str = "gpt-oss:20b";
/// The address of the server, in place of the configured one.
const BASE_URL_VARIABLE: &str = "CODEX_OSS_BASE_URL";
/// Its port on this machine.
const PORT_VARIABLE: &str = "CODEX_OSS_PORT";

/// The overrides that the flags stand for; none where they were not given.
pub(super) fn overrides(options: &ExecOptions, layers: &Layers) -> Result<Vec<String>, Refused> {
    let mut overrides = Vec::new();
    if options.ignore_rules {
        overrides.push("native.rules=\"system\"".to_owned());
    }
    if !options.oss && options.local_provider.is_none() {
        return Ok(overrides);
    }
    let config = layers.load()?;
    let configured = config.shared.get("oss_provider").and_then(Value::as_str);
    let provider = options.local_provider.as_deref().or(configured);
    let Some(provider) = provider else {
        return Err(Refused::new(
            "Error: No default OSS provider configured. Use --local-provider=ollama or \
             --local-provider=lmstudio, or set oss_provider in config.toml.",
        ));
    };
    if !PROVIDERS.contains(&provider) {
        return Err(Refused::new(format!(
            "Error: Model provider `{provider}` not found"
        )));
    }
    let base_url = base_url(provider, &config)?;
    if !base_url.is_local() {
        return Err(Refused::new(format!(
            "Error: --oss uses models on this machine, and the address of `{provider}` is \
             {base_url}; name a loopback address, or leave --oss out"
        )));
    }
    let quoted = |text: &str| Value::from(text).to_string();
    overrides.push("native.local_only=true".to_owned());
    overrides.push(format!("model_provider={}", quoted(provider)));
    let address = quoted(base_url.as_str());
    overrides.push(format!("model_providers.{provider}.base_url={address}"));
    let names_model = |given: &String| {
        let key = given.split_once('=').map(|(key, _)| key.trim());
        key == Some("model")
    };
    if options.model.is_none() && !layers.overrides.iter().any(names_model) {
        overrides.push(format!("model={}", quoted(MODEL)));
    }
    Ok(overrides)
}

/// The address of the server: the environment's, else the configured one, else the built-in one.
fn base_url(provider: &str, config: &Config) -> Result<BaseUrl, Refused> {
    let variable = |name: &str| {
        let text = std::env::var(name).ok();
        text.filter(|text| !text.trim().is_empty())
    };
    let of_port = |port: String| format!("http://localhost:{}/v1", port.trim());
    let named = variable(BASE_URL_VARIABLE).or_else(|| variable(PORT_VARIABLE).map(of_port));
    if let Some(text) = named {
        return BaseUrl::parse(&text).map_err(|problem| {
            Refused::new(format!(
                "Error: {BASE_URL_VARIABLE} or {PORT_VARIABLE}: the address {problem}"
            ))
        });
    }
    let native = config.shared.get("native").and_then(Value::as_object);
    let native = native.cloned().unwrap_or_default();
    match Provider::read(provider, &config.shared, &native) {
        Ok(provider) => Ok(provider.base_url),
        Err(error) => Err(Refused::new(format!("Error: {error}"))),
    }
}
