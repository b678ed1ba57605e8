//! What a run's thread and turn are started with: from options and configuration to params.
//!
//! The invariant here: on a thread that exists only what was said on the command line changes
//! anything, for this turn and later ones; on a new one the configuration speaks too. Nobody reviews
//! here, so without a word about it nothing is asked. Pure.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::{
    BoundTo, Overrides, ThreadForkParams, ThreadResumeParams, ThreadStartParams, TurnStartParams,
    WhenBusy,
};
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};

use crate::args::ExecOptions;
use crate::config::KEPT_HERE;
use crate::defaults;

/// What was said about how to run.
#[derive(Debug)]
pub(super) struct Said {
    /// The directory to work in, absolute.
    pub(super) cwd: PathBuf,
    /// Files and flags together.
    pub(super) all: Map<String, Value>,
    /// The flags alone.
    pub(super) flags: Map<String, Value>,
    /// The engine of a new thread, where a flag names it.
    pub(super) engine: Option<String>,
    pub(super) engine_tables: EngineTables,
    pub(super) schema: Option<Value>,
}

/// Where the settings of the engines' programs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineTables {
    /// The configuration of the server that runs the turn.
    Configured,
    /// A flag of this run; a daemon has engines already and does not take it.
    Given,
}

impl Said {
    /// Whether something was said that only this process may know.
    pub(super) fn stays_here(&self) -> bool {
        self.engine_tables == EngineTables::Given
            || KEPT_HERE.iter().any(|key| self.flags.contains_key(*key))
    }

    fn config(&self) -> Option<Map<String, Value>> {
        let mut config = self.flags.clone();
        config.retain(|key, _| !KEPT_HERE.contains(&key.as_str()));
        (!config.is_empty()).then_some(config)
    }

    fn cwd(&self) -> String {
        self.cwd.display().to_string()
    }

    /// The sandbox, where an option says something about it.
    fn sandbox(
        &self,
        options: &ExecOptions,
        shared: &Map<String, Value>,
    ) -> anyhow::Result<Option<SandboxPolicy>> {
        if options.dangerously_bypass_approvals_and_sandbox {
            return Ok(SandboxPolicy::from_mode("danger-full-access"));
        }
        let told = shared.contains_key("sandbox_mode") || options.sandbox.is_some();
        if !told && options.add_dir.is_empty() {
            return Ok(None);
        }
        // What a mode means is in the files too, also when only a flag names it.
        let mut all = self.all.clone();
        if let Some(mode) = options.sandbox {
            all.remove("default_permissions");
            all.insert("sandbox_mode".to_owned(), mode.word().into());
        }
        let mut policy = defaults::sandbox_policy(&all, &self.cwd)?;
        if let SandboxPolicy::WorkspaceWrite(write) = &mut policy {
            let more = options.add_dir.iter().map(|dir| absolute(&self.cwd, dir));
            write.writable_roots.extend(more);
        }
        Ok(Some(policy))
    }

    /// What a new thread is started with.
    pub(super) fn start(&self, options: &ExecOptions) -> anyhow::Result<ThreadStartParams> {
        let approval = approval(options, &self.all, Some(ApprovalPolicy::Never))?;
        Ok(ThreadStartParams {
            overrides: Overrides {
                model: options.model.clone(),
                cwd: Some(self.cwd()),
                approval_policy: approval,
                sandbox: self.sandbox(options, &self.all)?,
                config: self.config(),
                ..Overrides::default()
            },
            ephemeral: options.ephemeral.then_some(true),
            thread_source: options.thread_source.clone(),
            engine: self.engine.clone(),
            ..ThreadStartParams::default()
        })
    }

    /// What a thread is opened again with: what a turn cannot be told.
    pub(super) fn resume(&self, thread: &str) -> ThreadResumeParams {
        let provider = self.flags.get("model_provider").and_then(Value::as_str);
        ThreadResumeParams {
            thread_id: thread.to_owned(),
            exclude_turns: true,
            overrides: Overrides {
                model_provider: provider.map(str::to_owned),
                config: self.config(),
                ..Overrides::default()
            },
            ..ThreadResumeParams::default()
        }
    }

    /// What a copy of a thread is made with.
    pub(super) fn fork(
        &self,
        options: &ExecOptions,
        thread: &str,
    ) -> anyhow::Result<ThreadForkParams> {
        let provider = self.flags.get("model_provider").and_then(Value::as_str);
        Ok(ThreadForkParams {
            thread_id: thread.to_owned(),
            exclude_turns: true,
            ephemeral: options.ephemeral,
            thread_source: options.thread_source.clone(),
            overrides: Overrides {
                model: options.model.clone().or_else(|| self.text("model")),
                model_provider: provider.map(str::to_owned),
                cwd: Some(self.cwd()),
                approval_policy: approval(options, &self.flags, None)?,
                sandbox: self.sandbox(options, &self.flags)?,
                config: self.config(),
                ..Overrides::default()
            },
            ..ThreadForkParams::default()
        })
    }

    /// The turn of a thread that was just made for it.
    pub(super) fn turn(
        &self,
        options: &ExecOptions,
        thread: &str,
        input: Vec<UserInput>,
    ) -> TurnStartParams {
        TurnStartParams {
            thread_id: thread.to_owned(),
            input,
            output_schema: self.schema.clone(),
            when_busy: Some(if options.no_wait {
                WhenBusy::Reject
            } else {
                WhenBusy::Queue
            }),
            bound_to: (!options.no_wait).then_some(BoundTo::Connection),
            timeout_ms: options
                .timeout
                .filter(|seconds| *seconds > 0)
                .map(|seconds| seconds.saturating_mul(1000)),
            ..TurnStartParams::default()
        }
    }

    /// The turn of a thread that was there before, with what changes for it and for later ones.
    pub(super) fn further_turn(
        &self,
        options: &ExecOptions,
        thread: &str,
        input: Vec<UserInput>,
    ) -> anyhow::Result<TurnStartParams> {
        Ok(TurnStartParams {
            cwd: Some(self.cwd()),
            model: options.model.clone().or_else(|| self.text("model")),
            effort: self.text("model_reasoning_effort"),
            summary: self.word("model_reasoning_summary")?,
            personality: self.word("personality")?,
            service_tier: self.text("service_tier"),
            approval_policy: approval(options, &self.flags, None)?,
            sandbox_policy: self.sandbox(options, &self.flags)?,
            ..self.turn(options, thread, input)
        })
    }

    fn text(&self, key: &str) -> Option<String> {
        self.flags
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    }

    fn word<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<Option<T>> {
        let given = self.flags.get(key).cloned();
        let read = given.map(serde_json::from_value).transpose();
        read.with_context(|| key.to_owned())
    }
}

fn approval(
    options: &ExecOptions,
    shared: &Map<String, Value>,
    default: Option<ApprovalPolicy>,
) -> anyhow::Result<Option<ApprovalPolicy>> {
    if options.dangerously_bypass_approvals_and_sandbox {
        return Ok(Some(ApprovalPolicy::Never));
    }
    match shared.get("approval_policy") {
        None => Ok(default),
        Some(given) => {
            let policy = serde_json::from_value(given.clone()).context("approval_policy")?;
            Ok(Some(policy))
        }
    }
}

/// A directory or file as the server gets it.
pub(super) fn absolute(cwd: &Path, path: &Path) -> String {
    cwd.join(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::args::exec::options::SandboxArg;

    fn said(all: Value, flags: Value) -> Said {
        let table = |value| match value {
            Value::Object(table) => table,
            _ => Map::new(),
        };
        Said {
            cwd: PathBuf::from("/w"),
            all: table(all),
            flags: table(flags),
            engine: None,
            engine_tables: EngineTables::Configured,
            schema: None,
        }
    }

    #[test]
    fn a_new_thread_asks_nobody_unless_told_to() {
        let silent = said(json!({}), json!({}));
        let start = silent.start(&ExecOptions::default()).unwrap();
        assert_eq!(start.overrides.approval_policy, Some(ApprovalPolicy::Never));
        assert_eq!(start.overrides.sandbox, None, "the server's default");
        assert_eq!(start.overrides.config, None);
        let told = said(json!({"approval_policy": "on-request"}), json!({}));
        let start = told.start(&ExecOptions::default()).unwrap();
        assert_eq!(
            start.overrides.approval_policy,
            Some(ApprovalPolicy::OnRequest)
        );
        let bypass = ExecOptions {
            dangerously_bypass_approvals_and_sandbox: true,
            sandbox: Some(SandboxArg::ReadOnly),
            ..ExecOptions::default()
        };
        let start = told.start(&bypass).unwrap();
        assert_eq!(start.overrides.approval_policy, Some(ApprovalPolicy::Never));
        assert_eq!(
            start.overrides.sandbox,
            SandboxPolicy::from_mode("danger-full-access")
        );
    }

    #[test]
    fn further_directories_are_added_to_what_is_configured() {
        let roots = json!({"sandbox_workspace_write": {"writable_roots": ["/a"]}});
        let options = ExecOptions {
            sandbox: Some(SandboxArg::WorkspaceWrite),
            add_dir: vec!["/b".into(), "c".into()],
            ..ExecOptions::default()
        };
        let start = said(roots, json!({})).start(&options).unwrap();
        let Some(SandboxPolicy::WorkspaceWrite(write)) = start.overrides.sandbox else {
            panic!("{:?}", start.overrides.sandbox);
        };
        assert_eq!(write.writable_roots, ["/a", "/b", "/w/c"]);
    }

    #[test]
    fn only_flags_change_a_thread_that_exists() {
        let files = json!({"model": "file", "sandbox_mode": "read-only",
                           "approval_policy": "untrusted"});
        let silent = said(files.clone(), json!({}));
        let options = ExecOptions::default();
        let turn = silent.further_turn(&options, "t", Vec::new()).unwrap();
        assert_eq!(turn.cwd.as_deref(), Some("/w"));
        assert_eq!((turn.model, turn.approval_policy), (None, None));
        assert_eq!(turn.sandbox_policy, None);
        let flags = json!({"model": "flag", "model_reasoning_effort": "high",
                           "sandbox_mode": "workspace-write", "model_provider": "p",
                           "model_providers": {"p": {"experimental_bearer_token": "s"}}});
        let mut all = files;
        all["sandbox_mode"] = json!("workspace-write");
        let told = said(all, flags);
        let turn = told.further_turn(&options, "t", Vec::new()).unwrap();
        assert_eq!(turn.model.as_deref(), Some("flag"));
        assert_eq!(turn.effort.as_deref(), Some("high"));
        assert!(matches!(
            turn.sandbox_policy,
            Some(SandboxPolicy::WorkspaceWrite(_))
        ));
        let resume = told.resume("t");
        assert_eq!(resume.overrides.model_provider.as_deref(), Some("p"));
        let config = resume.overrides.config.unwrap();
        assert!(!config.contains_key("model_providers"), "it may hold keys");
        assert!(told.stays_here());
    }

    #[test]
    fn a_turn_waits_with_its_connection_or_is_refused() {
        let said = said(json!({}), json!({}));
        let turn = said.turn(&ExecOptions::default(), "t", Vec::new());
        assert_eq!(turn.when_busy, Some(WhenBusy::Queue));
        assert_eq!(turn.bound_to, Some(BoundTo::Connection));
        let options = ExecOptions {
            no_wait: true,
            timeout: Some(3),
            ..ExecOptions::default()
        };
        let turn = said.turn(&options, "t", Vec::new());
        assert_eq!(turn.when_busy, Some(WhenBusy::Reject));
        assert_eq!((turn.bound_to, turn.timeout_ms), (None, Some(3_000)));
    }
}
