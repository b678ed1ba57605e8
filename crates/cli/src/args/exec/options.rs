//! The options of `turnlane exec` that stand on either side of `resume` and `fork`.
//!
//! The invariant here: an option means the same on both sides; given on both, the later one wins,
//! and what may be repeated adds up. What they mean together is the grammar's business.

use std::path::PathBuf;

use clap::ValueEnum;

/// The options that stand on either side of a subcommand.
#[derive(Debug, Default, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag that is given or not"
)]
pub(crate) struct ExecOptions {
    /// One JSON object per event on standard output, instead of the answer alone
    #[arg(long, alias = "experimental-json")]
    pub(crate) json: bool,

    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// One setting for this run, as in config.toml: `-c model_reasoning_effort=high`
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// The directory to work in
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,

    /// Where commands may write
    #[arg(short, long, value_enum, value_name = "MODE")]
    pub(crate) sandbox: Option<SandboxArg>,

    /// A further directory that commands may write to; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,

    /// Work outside of a git work tree too
    #[arg(long)]
    pub(crate) skip_git_repo_check: bool,

    /// No sandbox and no approvals; for machines that are a sandbox themselves
    #[arg(long, alias = "yolo")]
    pub(crate) dangerously_bypass_approvals_and_sandbox: bool,

    /// A file with a JSON Schema that the final message has to fit
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,

    /// Write the final message of a completed turn to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output_last_message: Option<PathBuf>,

    /// Store nothing; the thread cannot be resumed
    #[arg(long)]
    pub(crate) ephemeral: bool,

    /// With `resume`: the newest thread of this directory
    #[arg(long)]
    pub(crate) last: bool,

    /// With `resume`: threads of every directory
    #[arg(long)]
    pub(crate) all: bool,

    /// Colours on standard error
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorArg>,

    /// Lay the file NAME.config.toml of Codex's folder over the configuration
    #[arg(short, long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// The same as `-c features.NAME=true`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) enable: Vec<String>,

    /// The same as `-c features.NAME=false`; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) disable: Vec<String>,

    /// What a new thread is for; stored with it
    #[arg(long, value_name = "TEXT")]
    pub(crate) thread_source: Option<String>,

    /// Refuse keys of our configuration that nobody knows
    #[arg(long)]
    pub(crate) strict_config: bool,

    /// Read no config.toml
    #[arg(long)]
    pub(crate) ignore_user_config: bool,

    /// Read only the system's rules about commands, not the user's and the project's
    #[arg(long)]
    pub(crate) ignore_rules: bool,

    /// Use a model on this machine; no request goes to another one
    #[arg(long)]
    pub(crate) oss: bool,

    /// Which server on this machine: ollama or lmstudio; implies --oss
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) local_provider: Option<String>,

    /// The engine of a new thread
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<String>,

    /// Fail at once when the thread is busy, instead of waiting for its turn
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// End the turn after so many seconds; 0 for never, which is the default
    #[arg(long, value_name = "SECS")]
    pub(crate) timeout: Option<u64>,

    /// Run the turn by this script (YAML or JSON) instead of a model: for demos and tests
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) idle: IdleOptions,
}

impl ExecOptions {
    /// These, and `later` where it says something; lists are joined.
    pub(super) fn then(self, later: Self) -> Self {
        fn joined<T>(mut first: Vec<T>, later: Vec<T>) -> Vec<T> {
            first.extend(later);
            first
        }
        Self {
            json: self.json | later.json,
            model: later.model.or(self.model),
            config: joined(self.config, later.config),
            cd: later.cd.or(self.cd),
            sandbox: later.sandbox.or(self.sandbox),
            add_dir: joined(self.add_dir, later.add_dir),
            skip_git_repo_check: self.skip_git_repo_check | later.skip_git_repo_check,
            dangerously_bypass_approvals_and_sandbox: self.dangerously_bypass_approvals_and_sandbox
                | later.dangerously_bypass_approvals_and_sandbox,
            output_schema: later.output_schema.or(self.output_schema),
            output_last_message: later.output_last_message.or(self.output_last_message),
            ephemeral: self.ephemeral | later.ephemeral,
            last: self.last | later.last,
            all: self.all | later.all,
            color: later.color.or(self.color),
            profile: later.profile.or(self.profile),
            enable: joined(self.enable, later.enable),
            disable: joined(self.disable, later.disable),
            thread_source: later.thread_source.or(self.thread_source),
            strict_config: self.strict_config | later.strict_config,
            ignore_user_config: self.ignore_user_config | later.ignore_user_config,
            ignore_rules: self.ignore_rules | later.ignore_rules,
            oss: self.oss | later.oss,
            local_provider: later.local_provider.or(self.local_provider),
            engine: later.engine.or(self.engine),
            no_wait: self.no_wait | later.no_wait,
            timeout: later.timeout.or(self.timeout),
            script: later.script.or(self.script),
            idle: self.idle.then(later.idle),
        }
    }
}

/// Options of Codex that have no effect here, or cannot have one.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct IdleOptions {
    #[arg(long, hide = true)]
    approve_for_me: bool,
    #[arg(long, hide = true)]
    dangerously_bypass_hook_trust: bool,
    #[arg(long, hide = true, value_name = "P")]
    cyber_access_program: Option<String>,
    #[arg(long, hide = true, value_name = "NAME", num_args = 0..=1)]
    worktree: Option<Vec<String>>,
}

impl IdleOptions {
    /// Those that were given and have no effect, as they are written.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--approve-for-me", self.approve_for_me),
            (
                "--dangerously-bypass-hook-trust",
                self.dangerously_bypass_hook_trust,
            ),
            (
                "--cyber-access-program",
                self.cyber_access_program.is_some(),
            ),
        ];
        let given = all.into_iter().filter(|(_, given)| *given);
        given.map(|(name, _)| name).collect()
    }

    /// Whether something was asked for that cannot be done yet.
    pub(super) fn wants_worktree(&self) -> bool {
        self.worktree.is_some()
    }

    fn then(self, later: Self) -> Self {
        Self {
            approve_for_me: self.approve_for_me | later.approve_for_me,
            dangerously_bypass_hook_trust: self.dangerously_bypass_hook_trust
                | later.dangerously_bypass_hook_trust,
            cyber_access_program: later.cyber_access_program.or(self.cyber_access_program),
            worktree: later.worktree.or(self.worktree),
        }
    }
}

/// The values of `--sandbox`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxArg {
    ReadOnly,
    WorkspaceWrite,
    DangerFullAccess,
}

impl SandboxArg {
    /// The word that the configuration knows it by.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        }
    }
}

/// The values of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    #[default]
    Auto,
    Always,
    Never,
}
