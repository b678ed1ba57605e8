//! The settings, the provider of models with its key, and whether a turn could run with them.
//!
//! The invariant here: of keys only the names of their variables are shown. Where a daemon answers, the
//! key is judged in the daemon's environment, because turns run there; elsewhere in this process.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value, json};
use turnlane_engine::native::provider::{Environment, KeyFile, Provider};
use turnlane_process::AbsentMounts;
use turnlane_protocol::method::{KeyStatus, ServerStatusAnswer};

use super::sandbox::Confines;
use super::{Finding, Mark, Part, Verdict, engines};
use crate::assembly::{self, KEYS};
use crate::config::{Config, ConfigFiles, Layers, NATIVE, is_codex};
use crate::{defaults, home};

pub(super) async fn look(
    before: &[String],
    daemon: Option<&ServerStatusAnswer>,
) -> (Vec<Part>, Verdict, Confines) {
    // A home that cannot be found was told before.
    let Ok(home) = home::find() else {
        let reason = "there is no home directory".to_owned();
        return (Vec::new(), Verdict::No(reason), Confines::Yes);
    };
    let codex_home = home::codex();
    let layers = Layers::new(&home, codex_home.as_deref(), before);
    let mut part = Part::new("Settings: config.toml, and the provider of models");
    files(&mut part, &layers);
    let config = match layers.load() {
        Ok(config) => config,
        Err(error) => {
            let text = format!("{error:#}");
            let found = Finding::new(Mark::Fix, "settings", &text);
            let next = "correct what it names; until then no turn runs";
            part.findings.push(found.next(next));
            part.facts.insert("provider".to_owned(), Value::Null);
            return (vec![part], Verdict::No(text), Confines::Yes);
        }
    };
    let engine = match daemon {
        Some(daemon) => daemon.engine.as_str(),
        None => config.server.engine.default.as_str(),
    };
    for unused in &config.without_effect {
        part.findings
            .push(Finding::new(Mark::Fine, "unused", unused));
    }
    part.facts
        .insert("withoutEffect".to_owned(), json!(config.without_effect));
    provider(&mut part, &home, &config, engine, daemon);
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let policy = defaults::sandbox_policy(&config.shared, &cwd);
    let confines = match policy {
        Ok(policy) if !policy.is_confined() => Confines::No,
        Ok(_) if config.server.absent_mounts == AbsentMounts::Tolerate => Confines::ByContainer,
        Ok(_) | Err(_) => Confines::Yes,
    };
    let (engines, of_codex) = engines::look(&config, engine).await;
    let verdict = match (daemon, of_codex) {
        (Some(daemon), _) => match (&daemon.trouble, &daemon.engine_status.reason) {
            (Some(trouble), _) => Verdict::No(trouble.clone()),
            (None, _) if daemon.engine_status.ok => Verdict::Yes,
            (None, reason) => Verdict::No(reason.clone().unwrap_or_default()),
        },
        (None, Some(verdict)) => verdict,
        (None, None) if engine == NATIVE => {
            let files = ConfigFiles::new(layers);
            let checked = assembly::check_turn(&home, codex_home.as_deref(), files, &cwd).await;
            match checked {
                Ok(status) if status.ok => Verdict::Yes,
                Ok(status) => Verdict::No(status.reason.unwrap_or_default()),
                Err(error) => Verdict::No(format!("{error:#}")),
            }
        }
        (None, None) => Verdict::No(format!(
            "the engine `{engine}` needs a server that was started with --script"
        )),
    };
    (vec![part, engines], verdict, confines)
}

fn files(part: &mut Part, layers: &Layers) {
    let files = [
        (layers.own.as_ref(), "ours"),
        (layers.codex.as_ref(), "codex"),
    ];
    let mut told = Vec::new();
    for (path, name) in files {
        let Some(path) = path else { continue };
        let looked = std::fs::metadata(path);
        told.push(json!({"path": path, "found": looked.is_ok()}));
        let shown = path.display();
        part.findings.push(match looked {
            Ok(_) => Finding::new(Mark::Yes, name, shown.to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!("{shown} does not exist; nothing is needed from it");
                Finding::new(Mark::Fine, name, text)
            }
            Err(error) => Finding::new(Mark::Fix, name, format!("cannot read {shown}: {error}"))
                .next("give yourself access to it, or move it away"),
        });
    }
    part.facts.insert("config".to_owned(), json!(told));
}

fn provider(
    part: &mut Part,
    home: &Path,
    config: &Config,
    engine: &str,
    daemon: Option<&ServerStatusAnswer>,
) {
    let shared = &config.shared;
    let text = |key: &str, default: &str| {
        let given = shared.get(key).and_then(Value::as_str);
        given.unwrap_or(default).to_owned()
    };
    if is_codex(engine) {
        let named = |key: &str| shared.get(key).and_then(Value::as_str);
        let (id, model) = (named("model_provider"), named("model"));
        let own = "Codex's own";
        let text = format!("{}, model {}", id.unwrap_or(own), model.unwrap_or(own));
        part.findings
            .push(Finding::new(Mark::Yes, "provider", text));
        let facts = json!({"name": id, "model": model, "engine": engine});
        part.facts.insert("provider".to_owned(), facts);
        return;
    }
    let id = text("model_provider", defaults::PROVIDER);
    let model = text("model", defaults::MODEL);
    let native = shared.get("native").and_then(Value::as_object);
    let none = Map::new();
    let read = Provider::read(&id, shared, native.unwrap_or(&none));
    let keys = KeyFile::read(&home.join(KEYS));
    let mut facts = json!({"name": id, "model": model, "engine": engine});
    let (provider, keys) = match (read, keys) {
        (Ok(provider), Ok(keys)) => (provider, keys),
        (Err(error), _) | (_, Err(error)) => {
            let found = Finding::new(Mark::Fix, "provider", format!("{id}: {error}"));
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
    let key = Key {
        names,
        set: set.map(String::as_str),
        file: home.join(KEYS).display().to_string(),
    };
    part.findings.push(if engine == NATIVE {
        key.finding(daemon)
    } else {
        Finding::new(
            Mark::Fine,
            "key",
            format!("the engine `{engine}` needs none"),
        )
    });
    facts["keyVariables"] = json!(names);
    facts["keySet"] = json!(set);
    facts["keyOfDaemon"] = json!(daemon.map(|daemon| daemon.key));
    part.facts.insert("provider".to_owned(), facts);
}

/// The key of the provider, as this process sees it.
struct Key<'a> {
    names: &'a [String],
    /// The variable that is set here, or in the key file.
    set: Option<&'a str>,
    file: String,
}

impl Key<'_> {
    fn finding(&self, daemon: Option<&ServerStatusAnswer>) -> Finding {
        let file = &self.file;
        let names = self.names.join(" or ");
        // The most specific name comes first in the search and the best known one last.
        let first = self.names.last().map_or("NAME", String::as_str);
        let write =
            format!("write the line `{first}=…` to {file} (mode 600), which every turn reads");
        match (self.set, daemon) {
            _ if self.names.is_empty() => Finding::new(Mark::Yes, "key", "none is needed"),
            (_, Some(daemon)) if daemon.key != KeyStatus::Missing => {
                Finding::new(Mark::Yes, "key", format!("{names} is set for the daemon"))
            }
            (Some(name), Some(daemon)) => Finding::new(
                Mark::Fix,
                "key",
                format!(
                    "{name} is set in this shell, but not for the daemon (process {}), which runs \
                     the turns",
                    daemon.pid
                ),
            )
            .next(format!(
                "{write}; or stop the daemon and start it where the variable is set"
            )),
            (Some(name), None) => Finding::new(Mark::Yes, "key", format!("{name} is set")),
            (None, _) => Finding::new(Mark::Fix, "key", format!("{names} is not set")).next(format!(
                "export {first}=…, or {write}; a provider without keys, such as Ollama, needs none"
            )),
        }
    }
}
