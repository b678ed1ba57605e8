//! The Codex program: where it is, which version it has, and how it is started.
//!
//! Both engines that run Codex, `codex-exec` and `codex`, start it here. The invariant: a Codex child
//! is contained by the process service, and it gets the environment of the worker without the
//! variables that are meant for Turnlane alone. Provider keys stay in that environment, because the
//! child is a model client with a login of its own; their values never reach a log.
//!
//! Arguments, and the conversation with the child, belong to the engines.

mod config_keys;
mod environment;
mod find;
mod login;
mod state;
mod stderr;
mod version;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use turnlane_process::{
    Containment, ContainmentKind, EnvSpec, Io, Process, ProcessService, SpawnError, SpawnErrorKind,
    Spec, Stdin,
};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

pub use config_keys::{RefusedKey, passed_config};
pub use login::CodexLogin;
pub(crate) use state::says_unwritten;
pub use state::{CodexThreadState, UnreadableState, is_uuid};
pub use stderr::StderrLog;
pub use version::CodexVersion;

use crate::native::redact::Redactor;
use crate::outcome::EngineError;
use crate::request::TurnSettings;

/// The program that is looked for when the configuration names none.
pub const DEFAULT_PROGRAM: &str = "codex";

/// Time that `PROGRAM --version` may take.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Settings of both Codex engines.
#[derive(Clone)]
pub struct CodexProgramOptions {
    /// Starts and ends the children.
    pub service: ProcessService,
    /// `engine.codex.program`: a name to look for in `PATH`, or a path.
    pub program: Option<PathBuf>,
    /// The environment of the worker, from which the children's is made.
    pub environment: Vec<(OsString, OsString)>,
    /// `engine.env_remove`: further variables that the children do not get. A name that ends in `*`
    /// stands for all names with that beginning.
    pub env_remove: Vec<String>,
}

/// The Codex program of a worker. Cheap to clone.
#[derive(Clone)]
pub struct CodexProgram {
    shared: Arc<Shared>,
}

struct Shared {
    service: ProcessService,
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    redactor: Redactor,
}

/// Why Codex cannot be started, or is not usable.
#[derive(Debug, thiserror::Error)]
pub enum CodexProgramError {
    /// `PATH` holds no such program.
    #[error("cannot find the program `{}` in PATH", program.display())]
    NotFound {
        /// The name that was looked for.
        program: PathBuf,
    },
    /// The file exists and is not a program.
    #[error("{} is not an executable file", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// The process service could not start it.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The file.
        program: PathBuf,
        /// The reason.
        source: SpawnError,
    },
    /// The working directory of the child does not exist or cannot be entered.
    #[error("cwd is not a directory: {}", cwd.display())]
    Directory {
        /// The directory.
        cwd: PathBuf,
    },
    /// `--version` did not end in time.
    #[error("`{} --version` did not answer within 5 s", program.display())]
    VersionTimeout {
        /// The file.
        program: PathBuf,
    },
    /// `--version` ended without a version.
    #[error("`{} --version` ended with code {code} and no version: {text}", program.display())]
    NoVersion {
        /// The file.
        program: PathBuf,
        /// The exit code.
        code: i32,
        /// The beginning of what the program wrote.
        text: String,
    },
    /// The search for the program was cancelled with its runtime.
    #[error("the search for the program was cancelled")]
    Cancelled,
}

impl CodexProgramError {
    /// The error of a turn that cannot start for this reason.
    pub fn to_error(&self) -> EngineError {
        let (info, kind) = match self {
            // The program is there. Waiting for it, as `engine_unavailable` does, would not help.
            Self::Directory { .. } => (CodexErrorInfo::BadRequest, ErrorKind::BadRequest),
            _ => (CodexErrorInfo::Other, ErrorKind::EngineUnavailable),
        };
        EngineError::new(self.to_string(), info, kind)
    }
}

/// Refuses a turn whose login is known to be missing. Reads files.
pub(crate) fn check_login(
    program: &CodexProgram,
    settings: &TurnSettings,
) -> Result<(), Box<EngineError>> {
    // A thread that brings a provider of its own knows best.
    let own = ["model_provider", "model_providers", "profile"];
    if own.iter().any(|key| settings.config.contains_key(*key)) {
        return Ok(());
    }
    match program.login(Some(&settings.provider)) {
        CodexLogin::Missing(reason) => Err(Box::new(EngineError::new(
            reason,
            CodexErrorInfo::Unauthorized,
            ErrorKind::Auth,
        ))),
        _ => Ok(()),
    }
}

impl CodexProgram {
    /// Settles environment and program name. Touches no file.
    pub fn new(options: CodexProgramOptions) -> Self {
        let environment = environment::for_child(options.environment, &options.env_remove);
        let redactor = environment::redactor(&environment);
        let shared = Shared {
            service: options.service,
            program: options
                .program
                .unwrap_or_else(|| PathBuf::from(DEFAULT_PROGRAM)),
            environment,
            redactor,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The file that is executed. Looked up anew each time, so that an upgrade needs no restart.
    pub async fn find(&self) -> Result<PathBuf, CodexProgramError> {
        let shared = Arc::clone(&self.shared);
        let found = tokio::task::spawn_blocking(move || {
            let path = shared.environment.get(OsStr::new("PATH"));
            find::program(&shared.program, path.map(OsString::as_os_str))
        });
        found.await.map_err(|_lost| CodexProgramError::Cancelled)?
    }

    /// Runs `PROGRAM --version`, at most 5 seconds.
    pub async fn version(&self) -> Result<CodexVersion, CodexProgramError> {
        let program = self.find().await?;
        let mut spec = self.spec(&program, ["--version".into()], Path::new("/"));
        spec.io = Io::Pipe {
            stdin: Stdin::Closed,
        };
        let process = self.start(spec, &program).await?;
        let done = process.communicate(Bytes::new(), Some(VERSION_LIMIT));
        let Ok(done) = done.await else {
            // Only this function has the process, so its output cannot have been taken.
            return Err(CodexProgramError::Cancelled);
        };
        if done.status.reason == turnlane_process::Reason::Timeout {
            return Err(CodexProgramError::VersionTimeout { program });
        }
        let text = done.snapshot.stdout.text();
        CodexVersion::from_output(&text).ok_or_else(|| {
            let text = format!("{text}{}", done.snapshot.stderr.text());
            let text = text.trim().chars().take(300).collect::<String>();
            CodexProgramError::NoVersion {
                program,
                code: done.status.code,
                text: self.shared.redactor.text(&text).into_owned(),
            }
        })
    }

    /// Starts `PROGRAM args` in `cwd`: pipes on all three streams, everything it starts contained, and
    /// ended when the last handle of the process is dropped.
    pub async fn spawn(
        &self,
        args: impl IntoIterator<Item = OsString>,
        cwd: &Path,
    ) -> Result<Process, CodexProgramError> {
        let program = self.find().await?;
        let spec = self.spec(&program, args, cwd);
        self.start(spec, &program).await
    }

    /// A variable of the children's environment.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let value = self.shared.environment.get(OsStr::new(name))?;
        Some(value.as_os_str())
    }

    /// The directory where the children keep login, configuration and threads.
    pub fn codex_home(&self) -> Option<PathBuf> {
        let given = self.variable("CODEX_HOME").filter(|home| !home.is_empty());
        let usual = || Some(Path::new(self.variable("HOME")?).join(".codex"));
        given.map(PathBuf::from).or_else(usual)
    }

    /// The file in which `codex login` keeps the login.
    pub fn login_file(&self) -> Option<PathBuf> {
        Some(self.codex_home()?.join("auth.json"))
    }

    /// Takes the values of keys and tokens in the children's environment out of texts.
    pub fn redactor(&self) -> Redactor {
        self.shared.redactor.clone()
    }

    fn spec(&self, program: &Path, args: impl IntoIterator<Item = OsString>, cwd: &Path) -> Spec {
        let argv = std::iter::once(program.as_os_str().to_owned()).chain(args);
        let mut spec = Spec::new(argv, cwd);
        spec.io = Io::Pipe { stdin: Stdin::Open };
        // Complete: nothing is added from the environment of the process service.
        spec.env = EnvSpec {
            vars: self.shared.environment.clone(),
            ..EnvSpec::default()
        };
        // Without a keeper, the group is the best containment there is.
        spec.containment = match self.shared.service.report().containment {
            ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
            ContainmentKind::Group => Containment::Group,
        };
        spec
    }

    async fn start(&self, spec: Spec, program: &Path) -> Result<Process, CodexProgramError> {
        let cwd = spec.cwd.clone();
        let started = self.shared.service.spawn(spec).await;
        started.map_err(|source| match source.kind {
            SpawnErrorKind::CwdNotFound | SpawnErrorKind::CwdDenied => {
                CodexProgramError::Directory { cwd }
            }
            _ => CodexProgramError::Spawn {
                program: program.to_owned(),
                source,
            },
        })
    }
}

impl std::fmt::Debug for CodexProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexProgram")
            .field("program", &self.shared.program)
            .finish_non_exhaustive()
    }
}
