//! The configuration: Codex's `config.toml` below ours below `-c key=value`, checked key by key.
//!
//! A bad value fails with file, line and key; a key nobody knows in our own file is a warning, since
//! a newer or older version may know it. Of Codex's file only the keys we share are read. What a
//! section means is decided in its own module below.

mod engine;
mod exec_server;
mod files;
mod section;
mod server;
mod shared;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

pub(crate) use engine::{Bypass, EngineConfig, NATIVE, is_codex};
pub(crate) use exec_server::ExecServerConfig;
pub(crate) use files::ConfigFiles;
use section::{Section, Source};
pub(crate) use server::{OnInterrupt, ServerConfig, Spawn};
use shared::SandboxKeys;

use crate::home::trust;

/// The name of the file in either folder.
const FILE: &str = "config.toml";
/// A longer file is a mistaken path. Codex adds a table per project, so there is room for thousands.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Keys that are not sent to a server: they may hold secrets, or a daemon does not take them from a
/// client.
pub(crate) const KEPT_HERE: [&str; 4] = [
    "mcp_servers",
    "model_providers",
    "native",
    "shell_environment_policy",
];

/// Said where one layer chooses the sandbox twice.
const SANDBOX_MODE_IGNORED: &str =
    "`sandbox_mode` is ignored: `default_permissions` is set beside it";

/// Everything that can be configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) exec_server: ExecServerConfig,
    pub(crate) server: ServerConfig,
    /// What is shared with Codex, with the chosen profile, and the table `native`.
    pub(crate) shared: Map<String, Value>,
    /// What becomes of keys of ours that nobody knows.
    pub(crate) unknown: Unknown,
    /// Keys of Codex that have no effect here, with place and reason. Programs that run turns name them
    /// once, at their start.
    pub(crate) without_effect: Vec<String>,
}

/// What becomes of a key of ours that nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unknown {
    #[default]
    Warned,
    Refused,
}

/// Where configuration comes from, lowest first: Codex's file, ours, a profile's, `-c`.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// `config.toml` in `$CODEX_HOME`; only keys we share are read.
    pub(crate) codex: Option<PathBuf>,
    /// `config.toml` in our folder; none where a run ignores it.
    pub(crate) own: Option<PathBuf>,
    /// `NAME.config.toml` in `$CODEX_HOME`, where a profile was chosen by name; must exist.
    pub(crate) profile: Option<PathBuf>,
    /// `-c key=value`, in their order.
    pub(crate) overrides: Vec<String>,
    /// What becomes of keys of ours that nobody knows.
    pub(crate) unknown: Unknown,
}

impl Layers {
    pub(crate) fn new(home: &Path, codex_home: Option<&Path>, overrides: &[String]) -> Self {
        Self {
            codex: codex_home.map(|home| home.join(FILE)),
            own: Some(home.join(FILE)),
            profile: None,
            overrides: overrides.to_vec(),
            unknown: Unknown::default(),
        }
    }

    /// With the file of a profile that was chosen by name.
    pub(crate) fn with_profile(mut self, codex_home: &Path, name: &str) -> Self {
        self.profile = Some(codex_home.join(format!("{name}.{FILE}")));
        self
    }

    /// Reads all of them.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let mut config = Config {
            unknown: self.unknown,
            ..Config::default()
        };
        if let Some(path) = &self.codex
            && let Some(text) = read(path)?
        {
            config.apply_file(&Source::file(path, &text), Whose::Codex)?;
        }
        if let Some(path) = &self.own
            && let Some(text) = read(path)?
        {
            config.apply_file(&Source::file(path, &text), Whose::Ours)?;
        }
        if let Some(path) = &self.profile {
            let text = read(path)?.with_context(|| {
                let absent = io::Error::from(Errno::NOENT);
                format!("cannot read {}: {absent}", path.display())
            })?;
            config.apply_file(&Source::file(path, &text), Whose::Codex)?;
        }
        let mut chosen = SandboxKeys::default();
        for given in &self.overrides {
            let text = override_as_toml(given)?;
            chosen = chosen.and(config.apply(&Source::flag(given, &text), Whose::Ours)?);
        }
        if chosen.profile && chosen.mode {
            tracing::warn!("{SANDBOX_MODE_IGNORED}");
        }
        chosen.settle(&mut config.shared);
        let has = |key: &str| config.shared.contains_key(key);
        if has("profiles") && !has("profile") {
            let text = "`profiles` has no effect: no `profile` chooses one of them";
            config.without_effect.push(text.to_owned());
        }
        config.shared = shared::with_profile(config.shared)?;
        Ok(config)
    }
}

/// Reads a file that may decide over the sandbox; none where there is no file.
fn read(path: &Path) -> Result<Option<String>, trust::Fault> {
    trust::read(path, trust::Kind::Settings, FILE_BYTES_MAX)
}

/// Whose keys a layer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Codex's: what we do not share is not ours to judge.
    Codex,
    Ours,
}

impl Config {
    /// With keys that one thread was started with laid over it; `a.b` names a key of a table.
    pub(crate) fn with(&self, keys: Option<&Map<String, Value>>) -> Self {
        let mut config = self.clone();
        let has = |key: &str| keys.is_some_and(|keys| keys.contains_key(key));
        SandboxKeys::of(has).settle(&mut config.shared);
        for (key, value) in keys.into_iter().flatten() {
            let mut parts = key.rsplit('.');
            let last = parts.next().unwrap_or(key);
            let value = Value::Object(Map::from_iter([(last.to_owned(), value.clone())]));
            let nested = parts.fold(value, |inner, part| {
                Value::Object(Map::from_iter([(part.to_owned(), inner)]))
            });
            if let Value::Object(nested) = nested {
                for (key, value) in nested {
                    shared::merge(&mut config.shared, &key, value);
                }
            }
        }
        config
    }

    /// Lays a whole file over the layers below.
    fn apply_file(&mut self, source: &Source<'_>, whose: Whose) -> anyhow::Result<()> {
        let chosen = self.apply(source, whose)?;
        if chosen.profile && chosen.mode {
            source.warn(0, SANDBOX_MODE_IGNORED);
        }
        chosen.settle(&mut self.shared);
        Ok(())
    }

    fn apply(&mut self, source: &Source<'_>, whose: Whose) -> anyhow::Result<SandboxKeys> {
        let table = DeTable::parse(source.text)
            .map_err(|error| source.error(error.span().map(|span| span.start), error.message()))?;
        for (name, value) in table.get_ref() {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            if let Some(why) = shared::without_effect(name, value.get_ref()) {
                let note = source.note(at, &format!("`{name}` has no effect: {why}"));
                self.without_effect.push(note);
            }
            if shared::knows(name) {
                // The engines' own table is not Codex's business.
                if whose == Whose::Ours || name != "native" {
                    shared::lay(&mut self.shared, source, name, value)?;
                }
            } else if whose == Whose::Ours && !shared::is_without_effect(name) {
                self.apply_own(source, name, at, value.get_ref())?;
            }
        }
        Ok(SandboxKeys::of(|key| table.get_ref().contains_key(key)))
    }

    fn apply_own(
        &mut self,
        source: &Source<'_>,
        name: &str,
        at: usize,
        value: &DeValue<'_>,
    ) -> anyhow::Result<()> {
        let sections = ServerConfig::SECTIONS.iter().chain(&["exec_server"]);
        let Some(known) = sections.copied().find(|known| *known == name) else {
            let complaint = format!("unknown key `{name}`");
            return match self.unknown {
                Unknown::Warned => {
                    source.warn(at, &complaint);
                    Ok(())
                }
                Unknown::Refused => Err(source.error(Some(at), &complaint)),
            };
        };
        let Some(table) = value.as_table() else {
            return Err(source.error(Some(at), &format!("{name}: expected a table")));
        };
        let section = Section::new(source, known, table);
        match known {
            "exec_server" => self.exec_server.apply(section),
            known => self.server.apply(known, section),
        }
    }
}

/// The keys of `-c key=value`, without what any file says.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Keys that are shared with Codex, and the tables of engines.
    pub(crate) shared: Map<String, Value>,
    /// Sections of ours: `queue`, `server` and the others.
    pub(crate) own: Map<String, Value>,
}

impl Given {
    /// Reads the flags in their order, and checks what they say.
    pub(crate) fn read(overrides: &[String]) -> anyhow::Result<Self> {
        let mut keys = Self::default();
        let mut checked = Config {
            unknown: Unknown::Refused,
            ..Config::default()
        };
        for given in overrides {
            let text = override_as_toml(given)?;
            let source = Source::flag(given, &text);
            checked.apply(&source, Whose::Ours)?;
            keys.lay(&source)?;
        }
        Ok(keys)
    }

    /// As [`Given::read`], for flags that the layers of a configuration have checked.
    pub(crate) fn unchecked(overrides: &[String]) -> anyhow::Result<Self> {
        let mut keys = Self::default();
        for given in overrides {
            let text = override_as_toml(given)?;
            keys.lay(&Source::flag(given, &text))?;
        }
        Ok(keys)
    }

    /// Takes out the engine that the flags name for new threads.
    pub(crate) fn take_engine(&mut self) -> Option<String> {
        let table = self.own.get_mut("engine")?.as_object_mut()?;
        let engine = table.remove("default")?;
        engine.as_str().map(str::to_owned)
    }

    fn lay(&mut self, source: &Source<'_>) -> anyhow::Result<()> {
        let table = DeTable::parse(source.text)
            .map_err(|error| source.error(error.span().map(|span| span.start), error.message()))?;
        for (name, value) in table.get_ref() {
            let name = name.get_ref().as_ref();
            if shared::knows(name) {
                shared::lay(&mut self.shared, source, name, value)?;
            } else {
                shared::merge(&mut self.own, name, shared::json(value.get_ref()));
            }
        }
        Ok(())
    }
}

/// `a.b=1` is TOML already; `a.b=word` becomes a string, so that nobody has to quote twice.
fn override_as_toml(given: &str) -> anyhow::Result<String> {
    let Some((key, value)) = given.split_once('=') else {
        bail!("-c wants key=value, not `{given}`");
    };
    // The short form of the one setting of this table that people type.
    let key = if key.trim() == "engine" {
        "engine.default"
    } else {
        key
    };
    let as_it_is = format!("{key} = {value}");
    if DeTable::parse(&as_it_is).is_ok() {
        return Ok(as_it_is);
    }
    // A JSON string is a TOML string, line ends and all.
    let quoted = Value::from(value);
    Ok(format!("{key} = {quoted}"))
}

#[cfg(test)]
mod tests {
    use turnlane_store::queue::{OnCannotStart, OnCrash, OnError, OnLimit, OnStop};

    use super::*;

    fn load(text: &str, overrides: &[&str]) -> Result<Config, String> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config.toml"), text).unwrap();
        let overrides: Vec<_> = overrides.iter().copied().map(str::to_owned).collect();
        Layers::new(home.path(), None, &overrides)
            .load()
            .map_err(|error| format!("{error:#}").replace(home.path().to_str().unwrap(), "HOME"))
    }

    #[test]
    fn values_come_from_the_file_and_flags_win() {
        let text = "[exec_server]\nmax_connections = 7\nallowed_hosts = [\"box\"]\n";
        let config = load(text, &["exec_server.max_connections=9"]).unwrap();
        assert_eq!(config.exec_server.max_connections, 9);
        assert_eq!(config.exec_server.allowed_hosts, ["box"]);
        let config = load(text, &["exec_server.listen=stdio"]).unwrap();
        assert_eq!(config.exec_server.listen.as_deref(), Some("stdio"));
    }

    #[test]
    fn a_bad_value_is_named_with_file_line_and_key() {
        for (text, message) in [
            (
                "[exec_server]\n\nmax_connections = \"x\"\n",
                "HOME/config.toml:3: exec_server.max_connections: expected a whole number, found a string",
            ),
            (
                "[exec_server]\nmax_connections = 0\n",
                "HOME/config.toml:2: exec_server.max_connections: must be 1 to 65536, not 0",
            ),
            (
                "[exec_server]\ndialect = \"v1\"\n",
                "HOME/config.toml:2: exec_server.dialect: must be one of auto, v0, process, not `v1`",
            ),
            (
                "exec_server = 1\n",
                "HOME/config.toml:1: exec_server: expected a table",
            ),
        ] {
            assert_eq!(load(text, &[]).unwrap_err(), message);
        }
        assert!(
            load("[exec_server\n", &[])
                .unwrap_err()
                .starts_with("HOME/config.toml:1: ")
        );
        assert_eq!(
            load("", &["exec_server.max_connections=-1"]).unwrap_err(),
            "-c exec_server.max_connections=-1: exec_server.max_connections: must be 1 to 65536, not -1"
        );
        assert_eq!(load("", &["x"]).unwrap_err(), "-c wants key=value, not `x`");
    }

    #[test]
    fn no_file_means_the_defaults() {
        let home = tempfile::tempdir().unwrap();
        let config = Layers::new(home.path(), None, &[]).load().unwrap();
        assert_eq!(config.exec_server.max_connections, 256);
        assert_eq!(config.server, ServerConfig::default());
        assert!(config.shared.is_empty());
    }

    #[test]
    fn a_retention_is_a_duration_and_none_by_default() {
        let kept = |text: &str| load(text, &[]).map(|config| config.server.retention);
        let days = std::time::Duration::from_hours(24 * 90);
        assert_eq!(kept("[store]\nretention = \"90d\"\n").unwrap(), Some(days));
        assert_eq!(kept("[store]\nretention = \"0s\"\n").unwrap(), None, "off");
        assert_eq!(kept("").unwrap(), None);
        let error = kept("[store]\nretention = \"soon\"\n").unwrap_err();
        assert!(error.contains("store.retention"), "{error}");
    }

    #[test]
    fn the_sections_of_a_server_are_read_and_checked() {
        let text = "[server]\nshutdown_grace = \"5s\"\n[approvals]\nunattended_timeout = \"0\"\n\
                    [queue]\non_interrupt = \"continue\"\non_stop = \"block\"\non_crash = \"retry\"\non_error = \"block\"\n\
                    on_limit = \"fail\"\non_cannot_start = \"continue\"\npoison_limit = 5\n\
                    max_depth = 100000\n[lanes]\nmax_running = 7\n\
                    [engine]\ndefault = \"codex\"\nturn_timeout = \"2h\"\nenv_remove = [\"A\"]\n\
                    [engine.codex]\nprogram = \"/opt/codex\"\nchildren = 2\n\
                    [engine.codex-exec]\nbypass = true\n[process]\nspawn = \"deny\"\n\
                    local_sockets = \"open\"\nsandbox = \"container\"\n";
        let config = load(text, &["thread.unload_after=1m"]).unwrap().server;
        assert_eq!(config.shutdown_grace.as_secs(), 5);
        assert_eq!(config.unattended_timeout, Some(std::time::Duration::ZERO));
        assert_eq!(config.approval_timeout, None, "no limit by default");
        assert_eq!(config.on_interrupt, OnInterrupt::Continue);
        assert_eq!(config.policies.on_stop, OnStop::Block);
        let engine = EngineConfig {
            default: "codex".to_owned(),
            turn_timeout: Some(std::time::Duration::from_hours(2)),
            env_remove: vec!["A".to_owned()],
            codex_program: Some("/opt/codex".to_owned()),
            codex_children: 2,
            codex_exec_bypass: Bypass::Allowed,
        };
        assert_eq!(config.engine, engine);
        assert_eq!(config.spawn, Spawn::Deny);
        assert_eq!(config.local_sockets, turnlane_process::LocalSockets::Open);
        let tolerant = turnlane_process::AbsentMounts::Tolerate;
        assert_eq!(config.absent_mounts, tolerant);
        assert_eq!(config.policies.on_crash, OnCrash::Retry);
        assert_eq!(config.policies.on_error, OnError::Block);
        assert_eq!(config.policies.on_limit, OnLimit::Fail);
        assert_eq!(config.policies.on_cannot_start, OnCannotStart::Continue);
        assert_eq!((config.poison_limit, config.max_depth), (5, 100_000));
        assert_eq!(config.max_running, 7);
        assert_eq!(config.unload_after.as_secs(), 60);
        for (text, message) in [
            (
                "[thread]\nunload_after = 5\n",
                "HOME/config.toml:2: thread.unload_after: expected a time such as \"30s\", found a \
                 whole number",
            ),
            (
                "[queue]\non_crash = \"again\"\n",
                "HOME/config.toml:2: queue.on_crash: must be one of block, continue, retry, not \
                 `again`",
            ),
            (
                "[queue]\nmax_depth = 0\n",
                "HOME/config.toml:2: queue.max_depth: must be 1 to 100000, not 0",
            ),
            (
                "[engine]\ndefault = \"gpt\"\n",
                "HOME/config.toml:2: engine.default: must be one of native, codex, codex-exec, scripted, \
                 not `gpt`",
            ),
        ] {
            assert_eq!(load(text, &[]).unwrap_err(), message);
        }
    }

    #[test]
    fn shared_keys_come_from_codex_then_from_us_then_from_flags() {
        let (home, codex) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = "model = \"a\"\nsandbox_mode = \"read-only\"\nno_such_key = 1\n\
                      [native]\nmax_rounds = 1\n[server]\nshutdown_grace = 1\n\
                      [model_providers.x]\nbase_url = \"http://a\"\nname = \"X\"\n";
        std::fs::write(codex.path().join(FILE), theirs).unwrap();
        let ours = "sandbox_mode = \"workspace-write\"\n[model_providers.x]\nname = \"Y\"\n";
        std::fs::write(home.path().join(FILE), ours).unwrap();
        let flags = ["model=b".to_owned(), "native.max_rounds=3".to_owned()];
        let layers = Layers::new(home.path(), Some(codex.path()), &flags);
        let shared = Value::Object(layers.load().unwrap().shared);
        let expected = serde_json::json!({
            "model": "b",
            "sandbox_mode": "workspace-write",
            "native": {"max_rounds": 3},
            "model_providers": {"x": {"base_url": "http://a", "name": "Y"}},
        });
        assert_eq!(shared, expected);
    }

    #[test]
    fn keys_of_codex_without_effect_are_named_and_never_refused() {
        let (home, codex) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = "web_search = \"disabled\"\nnotify = [\"bell\"]\n[mcp_servers.docs]\n\
                      command = \"d\"\n[profiles.fast]\nmodel = \"m\"\n[tui]\ntheme = \"t\"\n";
        std::fs::write(codex.path().join(FILE), theirs).unwrap();
        std::fs::write(home.path().join(FILE), "[skills]\nx = 1\n").unwrap();
        let mut layers = Layers::new(home.path(), Some(codex.path()), &[]);
        layers.unknown = Unknown::Refused;
        let config = layers.load().unwrap();
        let named: Vec<_> = config
            .without_effect
            .iter()
            .map(|note| note.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(
            named,
            [
                "config.toml:3: `mcp_servers` has no effect: MCP servers are not started yet",
                "config.toml:2: `notify` has no effect: no program is told of the end of a turn yet",
                "config.toml:1: `skills` has no effect: skills are not supported yet",
                "`profiles` has no effect: no `profile` chooses one of them",
            ]
        );
        layers.overrides = vec!["profile=fast".to_owned()];
        let config = layers.load().unwrap();
        assert!(
            !config
                .without_effect
                .iter()
                .any(|note| note.contains("profiles"))
        );
        assert_eq!(config.shared["model"], "m");
    }

    #[test]
    fn a_bad_shared_value_is_named_with_file_line_and_key() {
        for (text, message) in [
            (
                "model = \"m\"\nmodel_context_window = \"big\"\n",
                "HOME/config.toml:2: model_context_window: expected a whole number, found a string",
            ),
            (
                "sandbox_mode = \"open\"\n",
                "HOME/config.toml:1: sandbox_mode: must be one of read-only, workspace-write, \
                 danger-full-access, not `open`",
            ),
            (
                "project_root_markers = [1]\n",
                "HOME/config.toml:1: project_root_markers: expected a list of strings, found a list",
            ),
        ] {
            assert_eq!(load(text, &[]).unwrap_err(), message);
        }
    }
}
