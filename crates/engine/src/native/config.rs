//! What is configured for a turn: read once, typed, checked before anything happens.
//!
//! The invariant here: a value that is not possible fails the turn before its first model call, and
//! the complaint names the key and never repeats the value. Keys of the thread win over the files'.
//!
//! Which file wins over which is decided by the [`ConfigSource`]; providers have their own module.

mod lay;
pub(in crate::native) mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use turnlane_protocol::method::ReasoningSummary;

use self::table::Table;
use super::documents::{Trust, project_directories};
use super::environment::CommandEnvironment;
use super::history::WINDOW_DEFAULT;
use super::provider::{self, KeyFile, Provider};
use super::rules::RuleSources;
use super::tools::{
    APPLY_PATCH, Dangerous, EXEC_COMMAND, LoginShell, Pictures, ToolSettings, UPDATE_PLAN,
    VIEW_IMAGE, WRITE_STDIN,
};
use crate::request::TurnSettings;

pub(crate) use lay::laid_over;

/// Model calls of a turn when nobody configured another number.
const ROUNDS_DEFAULT: u32 = 200;
/// Calls that run at once when nobody configured another number.
const PARALLEL_DEFAULT: usize = 8;
/// `tool_output_token_limit` when nobody configured one.
const OUTPUT_TOKENS_DEFAULT: u64 = 10_000;
/// `project_doc_max_bytes` when nobody configured one.
const DOCUMENT_BYTES_DEFAULT: u64 = 32 * 1024;
/// The shells that run commands.
const SHELLS: [&str; 3] = ["bash", "zsh", "sh"];
const SHELL_DEFAULT: &str = "sh";

/// Where the native engine gets its configuration from.
pub trait ConfigSource: Send + Sync {
    /// The configuration as it is now; asked once per turn, on a thread that may block.
    ///
    /// An error is a text for people; the turn cannot start.
    fn current(&self) -> Result<Arc<NativeConfig>, String>;

    /// The file that the keys are read from, if there is one.
    fn key_file(&self) -> Option<PathBuf> {
        None
    }
}

/// A configuration: joined files, nothing checked yet.
#[derive(Clone, Debug, Default)]
pub struct NativeConfig {
    /// The keys that Turnlane shares with Codex, files joined.
    pub shared: Map<String, Value>,
    /// The table `native` of Turnlane's own file.
    pub native: Map<String, Value>,
    /// The variables of `keys.env`.
    pub keys: KeyFile,
}

/// A configuration that never changes.
impl ConfigSource for NativeConfig {
    fn current(&self) -> Result<Arc<NativeConfig>, String> {
        Ok(Arc::new(self.clone()))
    }
}

/// What is configured for one turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnConfig {
    pub(crate) provider: Provider,
    /// How many tokens fit into the model's context.
    pub(crate) window: u64,
    /// At how many tokens the history is compacted, where that is configured.
    pub(crate) compact_limit: Option<u64>,
    pub(crate) compact_prompt: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) summary: Option<ReasoningSummary>,
    pub(crate) verbosity: Option<String>,
    pub(crate) service_tier: Option<String>,
    pub(crate) max_output_tokens: Option<u64>,
    /// A file whose text stands in place of the base instructions.
    pub(crate) instructions_file: Option<PathBuf>,
    pub(crate) documents: DocumentSettings,
    pub(crate) rounds_max: u32,
    pub(crate) tools: ToolSettings,
    /// Keys without effect, in words.
    pub(crate) warnings: Vec<String>,
}

/// What is configured about documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentSettings {
    pub(crate) bytes_max: usize,
    pub(crate) fallback_names: Vec<String>,
    pub(crate) markers: Vec<String>,
    pub(crate) trust: Trust,
}

impl TurnConfig {
    /// Reads what a turn with these settings needs; `shell` is the `$SHELL` of the process.
    pub(crate) fn read(
        config: &NativeConfig,
        settings: &TurnSettings,
        shell: Option<&str>,
    ) -> Result<Self, provider::Error> {
        let joined = laid_over(&config.shared, &settings.config);
        let provider = Provider::read(&settings.provider, &joined, &config.native)?;
        let shared = Table::top(&joined);
        let native = Table::named("native", &config.native);
        // Checked here, behind everything that may change the address: a thread's own keys too.
        if native.flag("local_only")? == Some(true) && !provider.base_url.is_local() {
            let problem = "is set, and the provider's address is not a loopback address";
            return Err(native.wrong("local_only", problem));
        }
        let summary = shared.word("model_reasoning_summary", &SUMMARIES)?;
        let mut tools = tools(&shared, &native, &provider, shell)?;
        let environment = CommandEnvironment::read(&config.shared, &settings.config)?;
        tools.environment = environment.policy;
        Ok(Self {
            window: shared
                .at_least_one("model_context_window")?
                .unwrap_or(WINDOW_DEFAULT),
            compact_limit: shared.at_least_one("model_auto_compact_token_limit")?,
            compact_prompt: shared.text("compact_prompt")?,
            effort: settings
                .effort
                .clone()
                .or(shared.text("model_reasoning_effort")?),
            summary: settings.summary.or(summary),
            verbosity: shared.text("model_verbosity")?,
            service_tier: settings
                .service_tier
                .clone()
                .or(shared.text("service_tier")?),
            max_output_tokens: shared.at_least_one("model_max_output_tokens")?,
            instructions_file: shared.text("model_instructions_file")?.map(PathBuf::from),
            documents: documents(&shared, &settings.cwd)?,
            rounds_max: native.count("max_rounds")?.unwrap_or(ROUNDS_DEFAULT),
            warnings: environment.warnings,
            tools,
            provider,
        })
    }
}

const SUMMARIES: [(&str, ReasoningSummary); 4] = [
    ("auto", ReasoningSummary::Auto),
    ("concise", ReasoningSummary::Concise),
    ("detailed", ReasoningSummary::Detailed),
    ("none", ReasoningSummary::None),
];

fn tools(
    shared: &Table<'_>,
    native: &Table<'_>,
    provider: &Provider,
    shell: Option<&str>,
) -> Result<ToolSettings, provider::Error> {
    let login = native.flag("login_shell")?.unwrap_or(false);
    let guarded = native.flag("refuse_dangerous")?.unwrap_or(true);
    let parallel = native.count("max_parallel_tools")?;
    let parallel = parallel.and_then(|most| usize::try_from(most).ok());
    Ok(ToolSettings {
        environment: CommandEnvironment::default().policy,
        shell: chosen_shell(native, shell)?,
        login: if login {
            LoginShell::Yes
        } else {
            LoginShell::No
        },
        dangerous: if guarded {
            Dangerous::Guarded
        } else {
            Dangerous::Ordinary
        },
        parallel_max: parallel.unwrap_or(PARALLEL_DEFAULT),
        output_tokens_max: shared
            .at_least_one("tool_output_token_limit")?
            .unwrap_or(OUTPUT_TOKENS_DEFAULT),
        pictures: if provider.image_input {
            Pictures::Taken
        } else {
            Pictures::Refused
        },
        withheld: withheld(shared)?,
        variables: Vec::new(),
    })
}

/// The tools that `features` and `tools` switch off.
fn withheld(shared: &Table<'_>) -> Result<BTreeSet<&'static str>, provider::Error> {
    let mut withheld = BTreeSet::new();
    if let Some(features) = shared.table("features")? {
        let features = Table::named("features", features);
        if features.flag("shell_tool")? == Some(false) {
            withheld.extend([EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH]);
        }
        if features.flag("view_image")? == Some(false) {
            withheld.insert(VIEW_IMAGE);
        }
    }
    if let Some(tools) = shared.table("tools")? {
        let tools = Table::named("tools", tools);
        for name in [VIEW_IMAGE, UPDATE_PLAN] {
            if tools.switch(name)? == Some(false) {
                withheld.insert(name);
            }
        }
    }
    Ok(withheld)
}

/// The configured shell, else the user's if it is one that we know, else `sh`.
fn chosen_shell(native: &Table<'_>, shell: Option<&str>) -> Result<String, provider::Error> {
    let is_known = |shell: &str| {
        let name = Path::new(shell).file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| SHELLS.contains(&name))
    };
    if let Some(configured) = native.text("shell")? {
        if !is_known(&configured) {
            return Err(native.wrong("shell", "must be bash, zsh or sh, or a path of one"));
        }
        return Ok(configured);
    }
    let shell = shell.map(str::trim).filter(|shell| is_known(shell));
    Ok(shell.unwrap_or(SHELL_DEFAULT).to_owned())
}

/// What is configured about the instructions of a directory, without a thread's own keys.
pub(crate) fn documents_of(
    config: &NativeConfig,
    cwd: &str,
) -> Result<DocumentSettings, provider::Error> {
    documents(&Table::top(&config.shared), cwd)
}

/// The rule files that count: `native.rules`, which only the user's own file and flags have.
pub(crate) fn rule_sources(config: &NativeConfig) -> Result<RuleSources, provider::Error> {
    let words = [
        ("all", RuleSources::All),
        ("system", RuleSources::SystemOnly),
    ];
    let native = Table::named("native", &config.native);
    Ok(native.word("rules", &words)?.unwrap_or_default())
}

/// The directories of the project around `cwd` where the user's configuration trusts it by name;
/// without a thread's own keys, so that no client can trust a project in the user's place.
pub(crate) fn trusted_project(
    config: &NativeConfig,
    cwd: &str,
) -> Result<Vec<PathBuf>, provider::Error> {
    let shared = Table::top(&config.shared);
    let markers = shared.texts("project_root_markers")?;
    let markers = markers.unwrap_or_else(|| vec![".git".to_owned()]);
    let directories = project_directories(Path::new(cwd), &markers);
    let projects = shared.table("projects")?;
    let level = |directory: &Path| {
        let project = projects.and_then(|all| all.get(directory.to_str()?));
        project.and_then(|project| project.get("trust_level")?.as_str())
    };
    // The nearest directory that the configuration names decides, as for a new thread's sandbox.
    let real = Path::new(cwd).canonicalize().ok();
    let places = [Some(PathBuf::from(cwd)), real, directories.first().cloned()];
    let named = places.iter().flatten().find_map(|place| level(place));
    Ok(match named {
        Some("trusted") => directories,
        Some(_) | None => Vec::new(),
    })
}

fn documents(shared: &Table<'_>, cwd: &str) -> Result<DocumentSettings, provider::Error> {
    let bytes_max = shared.whole("project_doc_max_bytes")?;
    let bytes_max = bytes_max.unwrap_or(DOCUMENT_BYTES_DEFAULT);
    let markers = shared.texts("project_root_markers")?;
    Ok(DocumentSettings {
        bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        fallback_names: shared
            .texts("project_doc_fallback_filenames")?
            .unwrap_or_default(),
        markers: markers.unwrap_or_else(|| vec![".git".to_owned()]),
        trust: trust(shared, Path::new(cwd))?,
    })
}

/// What is said about the nearest folder about which something is said.
fn trust(shared: &Table<'_>, cwd: &Path) -> Result<Trust, provider::Error> {
    let projects = shared.table("projects")?;
    for folder in cwd.ancestors().filter_map(Path::to_str) {
        let Some(project) = projects.as_ref().and_then(|all| all.get(folder)) else {
            continue;
        };
        let level = project.get("trust_level").and_then(Value::as_str);
        return match level {
            None | Some("trusted") => Ok(Trust::Trusted),
            Some("untrusted") => Ok(Trust::Untrusted),
            Some(_) => Err(shared.wrong(
                &format!("projects.\"{folder}\".trust_level"),
                "must be `trusted` or `untrusted`",
            )),
        };
    }
    Ok(Trust::Trusted)
}

#[cfg(test)]
mod tests;
