//! The settings that are found, and whether the provider of models has what it needs.
//!
//! The invariant here: of keys only names are shown and told. That a key is missing is no fault: many
//! providers need none.

use std::path::Path;

use serde_json::{Map, Value, json};
use turnlane_engine::native::provider::{Environment, KeyFile, Provider};

use super::{Finding, Mark, Part};
use crate::assembly::KEYS;
use crate::config::{Config, Layers};
use crate::{defaults, home};

pub(super) fn look(before: &[String]) -> Option<Part> {
    // A home that cannot be found was told before.
    let home = home::find().ok()?;
    let layers = Layers::new(&home, home::codex().as_deref(), before);
    let mut part = Part {
        title: "Settings: config.toml, and the provider of models",
        findings: Vec::new(),
        facts: Map::new(),
    };
    let files = [
        (layers.own.as_ref(), "ours"),
        (layers.codex.as_ref(), "codex"),
    ];
    let mut told = Vec::new();
    for (path, name) in files {
        let Some(path) = path else { continue };
        told.push(json!({"path": path, "found": path.exists()}));
        let found = if path.exists() {
            Finding::new(Mark::Yes, name, path.display().to_string())
        } else {
            let text = format!("{} is not there; nothing is needed from it", path.display());
            Finding::new(Mark::No, name, text)
        };
        part.findings.push(found);
    }
    part.facts.insert("config".to_owned(), json!(told));
    match layers.load() {
        Ok(config) => provider(&mut part, &home, &config),
        Err(error) => {
            let found = Finding::new(Mark::Broken, "settings", format!("{error:#}"));
            part.findings
                .push(found.next("correct that line; without it no turn runs"));
            part.facts.insert("provider".to_owned(), Value::Null);
        }
    }
    Some(part)
}

fn provider(part: &mut Part, home: &Path, config: &Config) {
    let shared = &config.shared;
    let text = |key: &str, default: &str| {
        let given = shared.get(key).and_then(Value::as_str);
        given.unwrap_or(default).to_owned()
    };
    let id = text("model_provider", defaults::PROVIDER);
    let model = text("model", defaults::MODEL);
    let native = shared.get("native").and_then(Value::as_object);
    let none = Map::new();
    let read = Provider::read(&id, shared, native.unwrap_or(&none));
    let keys = KeyFile::read(&home.join(KEYS));
    let mut facts = json!({"name": id, "model": model});
    let (provider, keys) = match (read, keys) {
        (Ok(provider), Ok(keys)) => (provider, keys),
        (Err(error), _) | (_, Err(error)) => {
            let found = Finding::new(Mark::Broken, "provider", format!("{id}: {error}"));
            part.findings
                .push(found.next("correct model_provider or its table in config.toml"));
            part.facts.insert("provider".to_owned(), facts);
            return;
        }
    };
    let text = format!("{id}, model {model}");
    part.findings
        .push(Finding::new(Mark::Yes, "provider", text));
    let variables = |name: &str| std::env::var(name).ok();
    let environment = Environment {
        variables: &variables,
        keys: &keys,
    };
    let names = &provider.key_variables;
    let set = names.iter().find(|name| environment.get(name).is_some());
    let found = match set {
        Some(name) => Finding::new(Mark::Yes, "key", format!("{name} is set")),
        None if names.is_empty() => Finding::new(Mark::Yes, "key", "none is needed"),
        None => {
            let absent = format!("{} is not set", names.join(" or "));
            let file = home.join(KEYS);
            Finding::new(Mark::No, "key", absent).next(format!(
                "set it, or write `NAME=key` to {}; Ollama and the like need none",
                file.display()
            ))
        }
    };
    part.findings.push(found);
    facts["keyVariables"] = json!(names);
    facts["keySet"] = json!(set);
    part.facts.insert("provider".to_owned(), facts);
}
