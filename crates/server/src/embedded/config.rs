//! What an embedded server is made with: an engine, and what differs from the usual.
//!
//! The invariant here: nothing is granted that nobody asked for; where neither configuration nor
//! caller says something, commands write nowhere and approvals are asked for.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Map;
use turnlane_process::ProcessService;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_runtime::engine::Engine;
use turnlane_runtime::{AfterInterrupt, Settings};

use crate::answers::Facts;
use crate::options::{Defaults, FanoutOptions, Wanted};

/// What an embedded server is made with.
///
/// [`EmbeddedConfig::new`] is enough; every other word changes one thing.
#[derive(Clone)]
pub struct EmbeddedConfig {
    pub(super) engines: Vec<Arc<dyn Engine>>,
    pub(super) folder: Option<PathBuf>,
    pub(super) service: Option<ProcessService>,
    pub(super) settings: Settings,
    pub(super) defaults: Option<Arc<dyn Defaults>>,
    pub(super) runtime: turnlane_runtime::Options,
    pub(super) on_interrupt: AfterInterrupt,
    pub(super) fanout: FanoutOptions,
}

impl EmbeddedConfig {
    /// Threads that this engine runs, kept in memory: they are gone with the server.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engines: vec![engine],
            folder: None,
            service: None,
            settings: Settings {
                model: "default".to_owned(),
                provider: "embedded".to_owned(),
                cwd: String::new(),
                runtime_workspace_roots: Vec::new(),
                config: Map::new(),
                approval_policy: ApprovalPolicy::OnRequest,
                approvals_reviewer: None,
                permission_profile: None,
                sandbox_policy: SandboxPolicy::ReadOnly {
                    network_access: false,
                },
                effort: None,
                summary: None,
                personality: None,
                service_tier: None,
                base_instructions: None,
                developer_instructions: None,
            },
            defaults: None,
            runtime: turnlane_runtime::Options::default(),
            on_interrupt: AfterInterrupt::Pause,
            fanout: FanoutOptions::default(),
        }
    }

    /// Keeps threads and queues in a database in this folder, which is made if it is missing. Several
    /// servers may share it.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// One more engine; the first one runs the threads whose caller names none.
    #[must_use]
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.push(engine);
        self
    }

    /// What runs commands, such as the one that an engine was made with; it is not stopped with the
    /// server. Without this word the server has one of its own.
    #[must_use]
    pub fn processes(mut self, service: ProcessService) -> Self {
        self.service = Some(service);
        self
    }

    /// Changes what new threads get where their caller is silent: model, policies, instructions. The
    /// working directory is always the caller's, or that of this process.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Asks these defaults at every call, instead of [`EmbeddedConfig::settings`].
    #[must_use]
    pub fn defaults(mut self, defaults: Arc<dyn Defaults>) -> Self {
        self.defaults = Some(defaults);
        self
    }

    /// Bounds and hooks of the runtime.
    #[must_use]
    pub fn runtime(mut self, options: turnlane_runtime::Options) -> Self {
        self.runtime = options;
        self
    }

    /// What becomes of a queue after an interrupt whose caller said nothing.
    #[must_use]
    pub fn on_interrupt(mut self, after: AfterInterrupt) -> Self {
        self.on_interrupt = after;
        self
    }

    /// The rules for fan-out jobs.
    #[must_use]
    pub fn fanout(mut self, options: FanoutOptions) -> Self {
        self.fanout = options;
        self
    }
}

/// The same defaults at every call.
pub(super) struct Fixed {
    settings: Settings,
    engine: String,
}

impl Fixed {
    /// Of a configuration, whose engines are at least one.
    pub(super) fn new(settings: Settings, engines: &[Arc<dyn Engine>]) -> Self {
        let engine = engines.first().map(|engine| engine.name().to_owned());
        Self {
            settings,
            engine: engine.unwrap_or_default(),
        }
    }
}

impl Defaults for Fixed {
    fn settings(&self, wanted: Wanted<'_>) -> Result<Settings, String> {
        Ok(Settings {
            cwd: wanted.cwd.to_owned(),
            config: wanted.config.cloned().unwrap_or_default(),
            ..self.settings.clone()
        })
    }

    fn engine(&self) -> String {
        self.engine.clone()
    }

    fn facts(&self, _cwd: Option<&str>) -> Facts {
        Facts {
            model: self.settings.model.clone(),
            provider: self.settings.provider.clone(),
            ..Facts::default()
        }
    }
}
