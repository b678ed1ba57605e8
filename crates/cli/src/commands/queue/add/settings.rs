//! The settings of a queued turn and of the thread that is made for it: from flags to params.
//!
//! The invariant here: every setting that was given is in the params of exactly one call, or it is
//! refused by its name before anything is stored. Pure.

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use turnlane_protocol::policy::SandboxPolicy;

use crate::args::QueueAdd;
use crate::config::{Given, KEPT_HERE};

/// Keys of `-c` that a turn of an existing thread can change, with the words of `turn/start`.
const OF_A_TURN: [(&str, &str); 6] = [
    ("approval_policy", "approvalPolicy"),
    ("model", "model"),
    ("model_reasoning_effort", "effort"),
    ("model_reasoning_summary", "summary"),
    ("personality", "personality"),
    ("service_tier", "serviceTier"),
];

/// Keys of the section `queue` that a queued turn has itself, with the words of `thread/queue/add`.
const OF_A_ROW: [(&str, &str); 4] = [
    ("on_cannot_start", "onCannotStart"),
    ("on_crash", "onCrash"),
    ("on_error", "onError"),
    ("on_limit", "onLimit"),
];

/// Whether the thread is made for the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    New,
    /// One that exists, or may exist by now.
    Existing,
}

/// Params for the calls of one `queue add`.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Members of `thread/start`; empty for a thread that exists.
    pub(super) thread: Map<String, Value>,
    /// Members of `turnStartParams`; empty for a thread that is made for the turn.
    pub(super) turn: Map<String, Value>,
    /// Members of `thread/queue/add`.
    pub(super) row: Map<String, Value>,
}

impl Settings {
    /// Reads the flags of the command and `before`, the overrides in front of it.
    pub(super) fn read(args: &QueueAdd, before: &[String]) -> anyhow::Result<Self> {
        let target = if args.thread.is_some() || args.reuse {
            Target::Existing
        } else {
            Target::New
        };
        let mut given = Given::read(&[before, &args.config].concat())?;
        let engine = args.engine.clone().or(given.take_engine());
        let Given { mut shared, own } = given;
        let secret = KEPT_HERE.iter().find(|key| shared.contains_key(**key));
        if let Some(key) = secret {
            bail!(
                "`-c {key}` is not sent to a server, since it may hold a key\n  \
                 write it into $TURNLANE_HOME/config.toml of the daemon, or use `turnlane run`"
            );
        }
        if shared.contains_key("profile") || shared.contains_key("profiles") {
            bail!(
                "`-c profile` has no effect on a queued turn\n  \
                 the daemon reads it from its config.toml; `turnlane exec -p NAME` runs a turn with one"
            );
        }
        if let Some(sandbox) = args.sandbox {
            shared.remove("default_permissions");
            shared.insert("sandbox_mode".to_owned(), sandbox.word().into());
        }
        if let Some(ask) = args.ask {
            shared.insert("approval_policy".to_owned(), ask.word().into());
        }
        if args.network {
            let table = shared.entry("sandbox_workspace_write");
            let table = table.or_insert_with(|| Value::Object(Map::new()));
            table["network_access"] = true.into();
            check_network(&shared, target)?;
        }
        let mut settings = Self::default();
        settings.take_own(own, target)?;
        if let Some(engine) = engine {
            if args.thread.is_some() {
                bail!(
                    "`-c engine` has no effect on a thread that exists: a thread keeps its engine\n  \
                     queue the turn on a new one with `turnlane queue add --new --engine {engine}`"
                );
            }
            // For a thread that exists, the command compares it with the thread's.
            settings.thread.insert("engine".to_owned(), json!(engine));
        }
        match target {
            Target::New => settings.take_for_thread(args, shared),
            Target::Existing => settings.take_for_turn(args, shared)?,
        }
        Ok(settings)
    }

    /// Keys of ours: those of a row, the depth of a new queue; all others belong to the daemon.
    fn take_own(&mut self, own: Map<String, Value>, target: Target) -> anyhow::Result<()> {
        for (section, table) in own {
            let Value::Object(table) = table else {
                continue;
            };
            for (key, value) in table {
                let of_row = OF_A_ROW.iter().find(|(known, _)| *known == key);
                match (section.as_str(), key.as_str(), of_row) {
                    ("queue", _, Some((_, word))) => {
                        self.row.insert((*word).to_owned(), value);
                    }
                    ("queue", "max_depth", _) if target == Target::New => {
                        self.thread.insert("queueMaxDepth".to_owned(), value);
                    }
                    _ => bail!(
                        "`-c {section}.{key}` has no effect on `turnlane queue add`: it is a setting \
                         of the daemon\n  \
                         give it to `turnlane serve`, or write it into $TURNLANE_HOME/config.toml"
                    ),
                }
            }
        }
        Ok(())
    }

    fn take_for_thread(&mut self, args: &QueueAdd, shared: Map<String, Value>) {
        if let Some(model) = &args.model {
            self.thread.insert("model".to_owned(), json!(model));
        }
        if !shared.is_empty() {
            self.thread
                .insert("config".to_owned(), Value::Object(shared));
        }
    }

    fn take_for_turn(
        &mut self,
        args: &QueueAdd,
        mut shared: Map<String, Value>,
    ) -> anyhow::Result<()> {
        for (key, word) in OF_A_TURN {
            if let Some(value) = shared.remove(key) {
                self.turn.insert(word.to_owned(), value);
            }
        }
        if let Some(model) = &args.model {
            self.turn.insert("model".to_owned(), json!(model));
        }
        let limits = shared.remove("sandbox_workspace_write");
        if let Some(mode) = shared.remove("sandbox_mode") {
            let policy = policy(&mode, limits)?;
            self.turn.insert("sandboxPolicy".to_owned(), policy);
        } else if limits.is_some() {
            bail!(
                "`-c sandbox_workspace_write` on an existing thread needs the whole sandbox\n  \
                 give -s workspace-write as well"
            );
        }
        if let Some(key) = shared.keys().next() {
            bail!(
                "`-c {key}` cannot be changed on an existing thread\n  \
                 queue the turn on a new one with `turnlane queue add --new`"
            );
        }
        Ok(())
    }
}

/// Whether `--network` can have an effect, as far as it is known here.
fn check_network(shared: &Map<String, Value>, target: Target) -> anyhow::Result<()> {
    match (shared.get("sandbox_mode").and_then(Value::as_str), target) {
        (Some("read-only"), _) => bail!(
            "--network has no effect in a read-only sandbox\n  give -s workspace-write instead"
        ),
        (None, Target::Existing) => {
            bail!(
                "--network on an existing thread needs the whole sandbox\n  give -s workspace-write as well"
            )
        }
        // Where the configuration chooses the sandbox, the answer of the server is looked at.
        (Some(_) | None, _) => Ok(()),
    }
}

/// The sandbox policy of a mode and of `sandbox_workspace_write`.
fn policy(mode: &Value, limits: Option<Value>) -> anyhow::Result<Value> {
    let word = mode.as_str().unwrap_or_default();
    let policy = SandboxPolicy::from_mode(word);
    let policy = policy.with_context(|| format!("there is no sandbox `{word}`"))?;
    let mut policy = serde_json::to_value(policy)?;
    if let (SandboxPolicy::WorkspaceWrite(_), Some(Value::Object(limits))) =
        (serde_json::from_value(policy.clone())?, limits)
    {
        for (key, word) in [
            ("writable_roots", "writableRoots"),
            ("network_access", "networkAccess"),
            ("exclude_tmpdir_env_var", "excludeTmpdirEnvVar"),
            ("exclude_slash_tmp", "excludeSlashTmp"),
        ] {
            if let Some(value) = limits.get(key) {
                policy[word] = value.clone();
            }
        }
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command, QueueCommand};

    fn read(line: &[&str]) -> Result<Settings, String> {
        let line = [&["turnlane"], line, &["do it"]].concat();
        let args = Args::try_parse_from(line).map_err(|error| error.to_string())?;
        let Command::Queue(queue) = args.command else {
            panic!("another command");
        };
        let QueueCommand::Add(add) = queue.command else {
            panic!("another command");
        };
        Settings::read(&add, &args.config).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_engine_is_chosen_for_a_new_thread_only() {
        let settings = read(&["-c", "engine=codex", "queue", "add", "--new"]).unwrap();
        assert_eq!(settings.thread["engine"], "codex");
        let both = [
            "queue",
            "add",
            "--new",
            "-c",
            "engine=codex",
            "--engine",
            "codex-exec",
        ];
        assert_eq!(read(&both).unwrap().thread["engine"], "codex-exec");
        let existing = ["queue", "add", "--thread", "night", "-c", "engine=codex"];
        let refused = read(&existing).unwrap_err();
        assert!(refused.contains("a thread keeps its engine"), "{refused}");
        let table = ["queue", "add", "--new", "-c", "engine.codex.children=2"];
        let refused = read(&table).unwrap_err();
        assert!(
            refused.contains("it is a setting of the daemon"),
            "{refused}"
        );
    }

    #[test]
    fn a_new_thread_gets_every_setting_of_a_night() {
        let line = [
            "-c",
            "model_reasoning_effort=low",
            "queue",
            "add",
            "--new",
            "-s",
            "workspace-write",
            "--network",
            "-a",
            "never",
            "--engine",
            "native",
            "-m",
            "m-1",
            "-c",
            "model_reasoning_effort=high",
            "-c",
            "queue.on_error=block",
            "-c",
            "queue.max_depth=5",
        ];
        let settings = read(&line).unwrap();
        let thread = json!({
            "model": "m-1", "engine": "native", "queueMaxDepth": 5,
            "config": {
                "sandbox_mode": "workspace-write", "approval_policy": "never",
                "sandbox_workspace_write": {"network_access": true},
                "model_reasoning_effort": "high",
            },
        });
        assert_eq!(Value::Object(settings.thread), thread);
        assert_eq!(Value::Object(settings.row), json!({"onError": "block"}));
        assert!(settings.turn.is_empty());
        let alias = ["queue", "add", "--new", "--ask-for-approval", "untrusted"];
        let alias = read(&alias).unwrap();
        assert_eq!(alias.thread["config"]["approval_policy"], "untrusted");
    }

    #[test]
    fn an_existing_thread_gets_them_with_the_turn() {
        let line = [
            "queue",
            "add",
            "--thread",
            "t",
            "-s",
            "workspace-write",
            "--network",
            "-a",
            "never",
            "-m",
            "m-1",
            "-c",
            "model_reasoning_effort=high",
        ];
        let settings = read(&line).unwrap();
        assert!(settings.thread.is_empty());
        let turn = Value::Object(settings.turn);
        assert_eq!(turn["sandboxPolicy"]["type"], "workspaceWrite", "{turn}");
        assert_eq!(turn["sandboxPolicy"]["networkAccess"], true, "{turn}");
        assert_eq!(turn["approvalPolicy"], "never");
        assert_eq!(
            (&turn["model"], &turn["effort"]),
            (&json!("m-1"), &json!("high"))
        );
    }

    #[test]
    fn what_cannot_have_an_effect_is_refused_by_its_name() {
        for (line, named) in [
            (
                &["queue", "add", "--thread", "t", "--engine", "x"][..],
                "--engine",
            ),
            (&["queue", "add", "--thread", "t", "--name", "x"], "--name"),
            (&["queue", "add", "--thread", "t", "--network"], "--network"),
            (
                &["queue", "add", "--new", "-s", "read-only", "--network"],
                "--network",
            ),
            (
                &[
                    "queue",
                    "add",
                    "--thread",
                    "t",
                    "-c",
                    "project_doc_max_bytes=1",
                ],
                "project_doc_max_bytes",
            ),
            (
                &["-c", "server.shutdown_grace=1s", "queue", "add", "--new"],
                "server.shutdown_grace",
            ),
            (
                &[
                    "queue",
                    "add",
                    "--new",
                    "-c",
                    "model_providers.x.base_url=u",
                ],
                "model_providers",
            ),
            (&["queue", "add", "--new", "-c", "profile=x"], "profile"),
            (&["queue", "add", "--new", "-c", "no_such=1"], "no_such"),
            (
                &["queue", "add", "--new", "-c", "queue.no_such=1"],
                "queue.no_such",
            ),
            (&["queue", "add", "--new", "--reuse"], "--name"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(named), "{line:?}: {said}");
        }
    }
}
