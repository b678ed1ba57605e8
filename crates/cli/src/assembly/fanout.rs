//! The rules for fan-out jobs: from the configuration to the options of runtime and server.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use turnlane_process::ProcessService;
use turnlane_runtime::fanout::jobs::Owner;
use turnlane_runtime::fanout::worktree::{self, WorktreeOptions};

use super::Kind;
use crate::config::Config;

/// The rules for items, by our keys and by those that Codex had for its own jobs.
pub(super) fn of_runtime(
    config: &Config,
    processes: &ProcessService,
    home: &Path,
) -> turnlane_runtime::FanoutOptions {
    let member = |table: &str, key: &str| config.shared.get(table)?.get(key);
    let agents = |key: &str| member("agents", key).and_then(Value::as_u64);
    let is_enabled = member("features", "enable_fanout").and_then(Value::as_bool);
    turnlane_runtime::FanoutOptions {
        max_running: config.server.fanout.max_running,
        agent_tools: config.server.fanout.agent_tools || is_enabled == Some(true),
        max_threads: agents("max_threads").and_then(|threads| u32::try_from(threads).ok()),
        job_max_runtime: agents("job_max_runtime_seconds").map(Duration::from_secs),
        worktrees: Some(WorktreeOptions {
            processes: processes.clone(),
            dir: config
                .server
                .workspace_dir
                .clone()
                .or_else(|| worktree::default_dir(|name| std::env::var_os(name))),
            home: Some(home.to_owned()),
        }),
    }
}

/// The rules for clients.
pub(super) fn of_server(config: &Config, kind: Kind<'_>) -> turnlane_server::FanoutOptions {
    turnlane_server::FanoutOptions {
        // A job that runs in the process of its command stops with it.
        owner: match kind {
            Kind::Fanout => Owner::Connection,
            _ => Owner::Detached,
        },
        server_paths: config.server.fanout.server_paths,
    }
}
