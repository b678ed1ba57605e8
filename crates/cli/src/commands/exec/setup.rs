//! Everything that can be refused before a thread exists, checked in one place.
//!
//! The invariant here: nothing is written and nobody is asked; what passes has a directory, a
//! configuration that can be read, a provider that exists and a schema that is one.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use turnlane_engine::native::provider::{self, Provider};
use turnlane_protocol::output_schema::check_schema;

use super::local;
use super::refusal::Refused;
use super::settings::{EngineTables, Said};
use crate::args::{ExecOptions, Manner, Wish};
use crate::config::{Config, ConfigFiles, Given, Layers, NATIVE, Unknown};
use crate::defaults::{self, Trust};
use crate::home;

/// What a run is made with.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) said: Said,
    pub(super) home: PathBuf,
    pub(super) codex_home: Option<PathBuf>,
    pub(super) files: ConfigFiles,
    /// The configured provider.
    pub(super) provider: String,
}

impl Setup {
    /// Checks what was asked for; `before` are the overrides before the command.
    pub(super) fn new(wish: &Wish, before: &[String]) -> Result<Self, Refused> {
        let options = &wish.options;
        let mut overrides = overrides(before, options)?;
        check_pictures(wish)?;
        let cwd = directory(options.cd.as_deref())?;
        let home = home::open()?;
        let codex_home = home::codex();
        let layers = layers(options, &home, codex_home.as_deref(), &overrides)?;
        // Behind every other override, so that none of them undoes what these flags promise.
        let flags = local::overrides(options, &layers)?;
        overrides.extend(flags.iter().cloned());
        let layers = Layers {
            overrides: overrides.clone(),
            ..layers
        };
        let files = ConfigFiles::new(layers);
        let config = files.current()?;
        let mut given = Given::unchecked(&overrides)?;
        let engine = options.engine.clone().or(given.take_engine());
        let provider = check_provider(options, engine.as_deref(), &config)?;
        let schema = options.output_schema.as_deref().map(schema).transpose()?;
        check_trust(options, &config.shared, &cwd)?;
        let said = Said {
            cwd,
            all: config.shared.clone(),
            flags: given.shared,
            engine,
            engine_tables: match given.own.get("engine") {
                Some(Value::Object(tables)) if !tables.is_empty() => EngineTables::Given,
                _ => EngineTables::Configured,
            },
            schema,
        };
        Ok(Self {
            said,
            home,
            codex_home,
            files,
            provider,
        })
    }
}

/// All overrides in their order; those of `--enable` and `--disable` last, as Codex lays them.
fn overrides(before: &[String], options: &ExecOptions) -> Result<Vec<String>, Refused> {
    let given = before.iter().chain(&options.config);
    for given in given.clone() {
        let key = given.split_once('=').map(|(key, _)| key.trim());
        let complaint = match key {
            None => format!("Invalid override (missing '='): {given}"),
            Some("") => format!("Empty key in override: {given}"),
            Some(_) => continue,
        };
        return Err(Refused::new(format!(
            "Error parsing -c overrides: {complaint}"
        )));
    }
    let feature = |name: &String, on: bool| format!("features.{name}={on}");
    let enabled = options.enable.iter().map(|name| feature(name, true));
    let disabled = options.disable.iter().map(|name| feature(name, false));
    Ok(given.cloned().chain(enabled).chain(disabled).collect())
}

fn layers(
    options: &ExecOptions,
    home: &Path,
    codex_home: Option<&Path>,
    overrides: &[String],
) -> Result<Layers, Refused> {
    let mut layers = Layers::new(home, codex_home, overrides);
    if let Some(name) = &options.profile {
        let Some(codex_home) = codex_home else {
            return Err(Refused::new(format!(
                "Error: profile `{name}`: CODEX_HOME is not set and there is no home"
            )));
        };
        layers = layers.with_profile(codex_home, name);
    }
    if options.ignore_user_config {
        layers.codex = None;
        layers.own = None;
    }
    if options.strict_config {
        layers.unknown = Unknown::Refused;
    }
    Ok(layers)
}

/// The directory to work in, by its one true name.
fn directory(given: Option<&Path>) -> Result<PathBuf, Refused> {
    let given = given.unwrap_or(Path::new("."));
    let refused = |why: &str| Refused::new(format!("Error: {}: {why}", given.display()));
    let found = given
        .canonicalize()
        .map_err(|error| refused(&error.to_string()))?;
    if !found.is_dir() {
        return Err(refused("Not a directory"));
    }
    Ok(found)
}

/// A strict run is refused where a picture is missing: the agent would answer without it.
fn check_pictures(wish: &Wish) -> Result<(), Refused> {
    if wish.manner == Manner::AsCodex {
        return Ok(());
    }
    for picture in &wish.images {
        if let Err(error) = std::fs::metadata(picture) {
            let picture = picture.display();
            return Err(Refused::new(format!(
                "Error: the picture {picture} cannot be read: {error}; nothing was sent"
            )));
        }
    }
    Ok(())
}

/// The configured provider; one that nothing describes is refused.
fn check_provider(
    options: &ExecOptions,
    engine: Option<&str>,
    config: &Config,
) -> Result<String, Refused> {
    let id = config.shared.get("model_provider").and_then(Value::as_str);
    let id = id.unwrap_or(defaults::PROVIDER);
    let engine = engine.unwrap_or(&config.server.engine.default);
    if options.script.is_some() || engine != NATIVE {
        return Ok(id.to_owned());
    }
    match Provider::read(id, &config.shared, &Map::new()) {
        Err(provider::Error::NotFound { .. }) => Err(Refused::new(format!(
            "Error: Model provider `{id}` not found"
        ))),
        // What else is wrong with it fails the turn, with a reason.
        Ok(_) | Err(_) => Ok(id.to_owned()),
    }
}

fn schema(path: &Path) -> Result<Value, Refused> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| {
        Refused::new(format!(
            "Failed to read output schema file {shown}: {error}"
        ))
    })?;
    let schema = serde_json::from_slice(&text).map_err(|error| {
        Refused::new(format!(
            "Output schema file {shown} is not valid JSON: {error}"
        ))
    })?;
    check_schema(&schema).map_err(|why| {
        Refused::new(format!(
            "Output schema file {shown} is not a JSON Schema: {why}"
        ))
    })?;
    Ok(schema)
}

fn check_trust(
    options: &ExecOptions,
    shared: &Map<String, Value>,
    cwd: &Path,
) -> Result<(), Refused> {
    let lifted = options.skip_git_repo_check || options.dangerously_bypass_approvals_and_sandbox;
    let in_work_tree = || cwd.ancestors().any(|folder| folder.join(".git").exists());
    if lifted || in_work_tree() || defaults::trust(shared, cwd) == Trust::Trusted {
        return Ok(());
    }
    Err(Refused::new(
        "Not inside a trusted directory and --skip-git-repo-check was not specified.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(config: &[&str]) -> ExecOptions {
        ExecOptions {
            config: config.iter().copied().map(str::to_owned).collect(),
            ..ExecOptions::default()
        }
    }

    #[test]
    fn an_override_without_a_value_is_refused_in_the_words_of_codex() {
        let refused = overrides(&[], &options(&["novalue"])).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Error parsing -c overrides: Invalid override (missing '='): novalue"
        );
        let before = ["x".to_owned()];
        assert!(overrides(&before, &options(&[])).is_err());
    }

    #[test]
    fn features_are_overrides_too() {
        let options = ExecOptions {
            enable: vec!["a".to_owned()],
            disable: vec!["b".to_owned()],
            ..options(&["k=v"])
        };
        let before = ["k=u".to_owned()];
        let all = overrides(&before, &options).unwrap();
        assert_eq!(all, ["k=u", "k=v", "features.a=true", "features.b=false"]);
    }

    #[test]
    fn a_directory_is_trusted_by_its_repository_or_by_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let inner = root.join("a");
        std::fs::create_dir(&inner).unwrap();
        let none = Map::new();
        let bare = ExecOptions::default();
        // Directories of temporary files may lie in a work tree; this one does not.
        let outside = Path::new("/proc");
        assert!(check_trust(&bare, &none, outside).is_err());
        let skip = ExecOptions {
            skip_git_repo_check: true,
            ..ExecOptions::default()
        };
        assert!(check_trust(&skip, &none, outside).is_ok());
        let trusting = serde_json::json!({"projects": {"/proc": {"trust_level": "trusted"}}});
        assert!(check_trust(&bare, trusting.as_object().unwrap(), outside).is_ok());
        std::fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
        assert!(check_trust(&bare, &none, &inner).is_ok());
    }

    #[test]
    fn a_file_that_holds_no_schema_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        let missing = schema(&path).unwrap_err().to_string();
        assert!(missing.starts_with("Failed to read output schema file "));
        assert!(missing.ends_with(": No such file or directory (os error 2)"));
        std::fs::write(&path, "{x").unwrap();
        let broken = schema(&path).unwrap_err().to_string();
        assert!(broken.ends_with("is not valid JSON: key must be a string at line 1 column 2"));
        std::fs::write(&path, "[]").unwrap();
        assert!(schema(&path).is_err());
        std::fs::write(&path, "{\"type\":\"object\"}").unwrap();
        assert!(schema(&path).is_ok());
    }
}
