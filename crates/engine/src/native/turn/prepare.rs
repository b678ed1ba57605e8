//! What a turn is made of, checked before anything happens.
//!
//! The invariant here: whatever can be known to fail fails here, before a model call, a record or an
//! event, so a turn that cannot start has left no trace. Everything that blocks (configuration,
//! documents, pictures, the working directory) is done in one place where blocking is allowed.
//!
//! Whether a lane waits after such a failure is the runtime's business.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::ids::{ItemId, ThreadId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::ItemBody;
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::rules::{close_network, rules};
use crate::entry::{Entry, EntryKind};
use crate::native::Shared;
use crate::native::config::{DocumentSettings, TurnConfig};
use crate::native::documents::{self, Places};
use crate::native::failure::{Around, Cause, Now, classify, rfc3339};
use crate::native::history::{Author, Load, Pictures, Reasoning, View, tokens_of};
use crate::native::instructions::{self, Environment, Parts};
use crate::native::provider::{self, ReasoningReplay, Resolved};
use crate::native::redact::Redactor;
use crate::native::request::{Body, Fields};
use crate::native::rules::RuleSet;
use crate::native::tools::{self, schema};
use crate::outcome::EngineError;
use crate::request::{RuntimeTool, TurnKind, TurnRequest, TurnSettings};

/// What part of the window clients are told: the rest is kept for the answer.
const TOLD_WINDOW_PERCENT: u64 = 95;

/// What stays the same during a turn.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) thread_id: ThreadId,
    pub(crate) settings: Arc<TurnSettings>,
    pub(crate) config: TurnConfig,
    pub(crate) provider: Resolved,
    pub(crate) rules: Arc<RuleSet>,
    pub(crate) view: View,
    pub(crate) instructions: String,
    /// Every tool that the model may call, our own first.
    pub(crate) tools: Vec<RuntimeTool>,
    /// How many of them are our own.
    pub(crate) own_tools: usize,
    drop: Vec<String>,
    /// How many tokens the last model call of the thread counted, where that is known.
    last_tokens: Option<u64>,
}

/// A turn that may begin.
pub(super) struct Prepared {
    pub(super) setup: Setup,
    pub(super) author: Author,
    pub(super) past: Arc<Vec<Entry>>,
    pub(super) opening: Opening,
}

/// What a turn does first.
pub(super) struct Opening {
    pub(super) kind: TurnKind,
    /// Messages of earlier turns; they are in the history already and only have to be recorded.
    pub(super) late: Vec<Entry>,
    /// What it has to record before anything else.
    pub(super) entries: Vec<Entry>,
    pub(super) warnings: Vec<String>,
}

impl Setup {
    /// The request but its input.
    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields {
            model: &self.settings.model,
            instructions: &self.instructions,
            tools: &self.tools,
            effort: self.config.effort.as_deref(),
            summary: self.config.summary,
            verbosity: self.config.verbosity.as_deref(),
            output_schema: self.settings.output_schema.as_ref(),
            service_tier: self.config.service_tier.as_deref(),
            max_output_tokens: self.config.max_output_tokens,
            thread_id: self.thread_id,
            drop: &self.drop,
        }
    }

    /// How many tokens clients are told fit into the context.
    pub(crate) fn told_window(&self) -> i64 {
        let told = self.config.window.saturating_mul(TOLD_WINDOW_PERCENT) / 100;
        i64::try_from(told).unwrap_or(i64::MAX)
    }
}

/// The turns that are prepared at once. Every further thread keeps a stack and freed memory of its own,
/// which adds up where many turns begin together.
pub(crate) const PREPARED_AT_ONCE: usize = 8;

/// How long a turn waits for others to be prepared.
const PLACE_WAIT: Duration = Duration::from_secs(1);

/// Checks a turn and makes what it needs.
pub(super) async fn prepare(
    shared: Arc<Shared>,
    request: TurnRequest,
) -> Result<Prepared, Box<EngineError>> {
    let places = Arc::clone(&shared);
    // A directory that does not answer holds its place for ever, so no turn waits long for one.
    let _place = tokio::time::timeout(PLACE_WAIT, places.preparing.acquire()).await;
    let prepared = tokio::task::spawn_blocking(move || blocking(&shared, request));
    prepared.await.unwrap_or_else(|_lost| {
        let text = "the turn could not be prepared";
        let error = EngineError::new(text, CodexErrorInfo::Other, ErrorKind::Other);
        Err(Box::new(error))
    })
}

/// Whether a turn with these settings could begin.
pub(crate) fn check(shared: &Shared, settings: &TurnSettings) -> Result<(), Box<EngineError>> {
    resolve(shared, &mut settings.clone()).map(drop)
}

/// What a turn needs of the configuration.
struct Resources {
    config: TurnConfig,
    provider: Resolved,
    rules: Arc<RuleSet>,
    /// Why the settings were narrowed.
    warning: Option<String>,
}

/// Checks the settings, and narrows them where a rule asks for it.
fn resolve(shared: &Shared, settings: &mut TurnSettings) -> Result<Resources, Box<EngineError>> {
    let refused = |error: &provider::Error| Box::new(error.turn_error());
    let current = shared.config.current().map_err(|text| bad_request(&text))?;
    let rules = rules(shared, &current, Some(&settings.cwd))?;
    let warning = rules.network_warning();
    let warning = warning.filter(|_| close_network(&mut settings.sandbox_policy));
    let shell = (shared.variables)("SHELL");
    let config = TurnConfig::read(&current, settings, shell.as_deref());
    let config = config.map_err(|error| refused(&error))?;
    let environment = provider::Environment {
        variables: &*shared.variables,
        keys: &current.keys,
    };
    let resolved = config.provider.resolve(&environment);
    let resolved = resolved.map_err(|error| refused(&error))?;
    let around = Around {
        model: &settings.model,
        now: Now {
            unix_ms: (shared.clock)(),
        },
        redactor: &resolved.redactor,
    };
    let cwd = Path::new(&settings.cwd);
    if !cwd.is_dir() {
        let cwd = &settings.cwd;
        let failure = classify(Cause::CwdMissing { cwd }, around);
        return Err(Box::new(failure.error()));
    }
    // The service itself, not its report: only what the policy needs is tried, and no keeper started.
    let machine = &shared.service;
    let enforced = turnlane_exec_server::policy::check(machine, &settings.sandbox_policy, cwd);
    if let Err(text) = enforced {
        let failure = classify(Cause::SandboxUnenforceable { text: &text }, around);
        return Err(Box::new(failure.error()));
    }
    Ok(Resources {
        config,
        provider: resolved,
        rules,
        warning,
    })
}

fn blocking(shared: &Shared, mut request: TurnRequest) -> Result<Prepared, Box<EngineError>> {
    let Resources {
        mut config,
        provider,
        rules,
        warning,
    } = resolve(shared, &mut request.settings)?;
    config.tools.variables = std::mem::take(&mut request.command_variables);
    let author = Author::of(&request);
    let redactor = provider.redactor.clone();
    let mut warnings = config.warnings.clone();
    warnings.extend(warning);
    shared.told.retain_new(request.thread_id, &mut warnings);

    let base = base_text(shared, &config, &request.settings)?;
    let found = documents::read(&places(shared, &config.documents, &request.settings.cwd));
    warnings.extend(found.warnings);
    let parts = Parts {
        base: base.as_deref(),
        environment: &Environment {
            cwd: &request.settings.cwd,
            shell: &config.tools.shell,
            os: std::env::consts::OS,
            date: &date((shared.clock)()),
            sandbox: &request.settings.sandbox_policy,
            writable_roots: &writable_roots(shared, &request.settings),
            approval: request.settings.approval_policy,
        },
        developer: request.settings.developer_instructions.as_deref(),
        documents: &found.documents,
    };
    let instructions = redactor.text(&instructions::compose(&parts)).into_owned();

    let late = late_entries(&author, &request, (&redactor, &mut warnings));
    let mut entries: Vec<Entry> = Vec::new();
    for text in &request.context {
        entries.push(author.note(&redactor.text(text)));
    }
    if let Some(item_id) = &request.item_id {
        let input = clean_input(std::mem::take(&mut request.input), &redactor);
        let entry = author.user(item_id, &input);
        entries.push(entry.map_err(|refused| Box::new(refused.to_error()))?);
    }

    let mut tools = schema::offered(&config.tools, request.settings.environments.as_deref());
    let own_tools = tools.len();
    tools.append(&mut request.runtime_tools);
    let last_tokens = request.thread_usage.map(|usage| usage.last.total_tokens);
    let setup = Setup {
        thread_id: request.thread_id,
        view: view(&config),
        drop: config.provider.drop.iter().cloned().collect(),
        instructions,
        settings: Arc::new(request.settings),
        last_tokens: last_tokens.and_then(|tokens| u64::try_from(tokens).ok()),
        tools,
        own_tools,
        config,
        provider,
        rules,
    };
    Ok(Prepared {
        setup,
        author,
        past: with_late(request.history, &late),
        opening: Opening {
            kind: request.kind,
            late,
            entries,
            warnings,
        },
    })
}

pub(super) fn bad_request(text: &str) -> Box<EngineError> {
    let (info, kind) = (CodexErrorInfo::BadRequest, ErrorKind::BadRequest);
    Box::new(EngineError::new(text, info, kind))
}

/// What stands in place of our own base text.
fn base_text(
    shared: &Shared,
    config: &TurnConfig,
    settings: &TurnSettings,
) -> Result<Option<String>, Box<EngineError>> {
    if settings.base_instructions.is_some() {
        return Ok(settings.base_instructions.clone());
    }
    let Some(file) = &config.instructions_file else {
        return Ok(None);
    };
    // Relative to where configuration lies, as in Codex; an absolute path stays what it is.
    let home = shared.codex_home.as_ref().unwrap_or(&shared.turnlane_home);
    let text = std::fs::read_to_string(home.join(file));
    let text = text.map_err(|error| bad_request(&format!("model_instructions_file: {error}")))?;
    if text.trim().is_empty() {
        return Err(bad_request("model_instructions_file: the file is empty"));
    }
    Ok(Some(text))
}

/// Where instructions for a turn in this directory are looked for.
pub(crate) fn places(shared: &Shared, documents: &DocumentSettings, cwd: &str) -> Places {
    Places {
        turnlane_home: Some(shared.turnlane_home.clone()),
        codex_home: shared.codex_home.clone(),
        cwd: PathBuf::from(cwd),
        markers: documents.markers.clone(),
        fallback_names: documents.fallback_names.clone(),
        bytes_max: documents.bytes_max,
        trust: documents.trust,
    }
}

fn view(config: &TurnConfig) -> View {
    View {
        provider: config.provider.id.clone(),
        reasoning: match config.provider.reasoning_replay {
            ReasoningReplay::Encrypted => Reasoning::Encrypted,
            ReasoningReplay::None => Reasoning::LeftOut,
        },
        pictures: match config.tools.pictures {
            tools::Pictures::Taken => Pictures::Sent,
            tools::Pictures::Refused => Pictures::LeftOut,
        },
    }
}

/// The folders that the sandbox leaves writable, as the model is told them.
fn writable_roots(shared: &Shared, settings: &TurnSettings) -> Vec<String> {
    let SandboxPolicy::WorkspaceWrite(limits) = &settings.sandbox_policy else {
        return Vec::new();
    };
    let mut roots = vec![settings.cwd.clone()];
    roots.extend(limits.writable_roots.iter().cloned());
    let temporary = (shared.variables)("TMPDIR").filter(|_| !limits.exclude_tmpdir_env_var);
    roots.extend(temporary);
    if !limits.exclude_slash_tmp {
        roots.push("/tmp".to_owned());
    }
    let mut told = BTreeSet::new();
    roots.retain(|root| told.insert(root.clone()));
    roots
}

/// The day, as `2030-01-31`; in UTC, so that it does not depend on where a worker runs.
fn date(unix_ms: i64) -> String {
    let mut moment = rfc3339(unix_ms.div_euclid(1000));
    moment.truncate("2030-01-31".len());
    moment
}

/// Messages of earlier turns that never became entries.
fn late_entries(
    author: &Author,
    request: &TurnRequest,
    (redactor, warnings): (&Redactor, &mut Vec<String>),
) -> Vec<Entry> {
    let mut late = Vec::new();
    for message in &request.unrecorded {
        let ItemBody::UserMessage(said) = &message.item.body else {
            continue;
        };
        let theirs = Author {
            turn_id: message.turn_id,
            ..author.clone()
        };
        let input = clean_input(said.content.clone(), redactor);
        let (entry, warning) = rendered(&theirs, &message.item.id, &input);
        warnings.extend(warning);
        late.push(entry);
    }
    late
}

/// The history with late messages where the store will have them: behind their turn's entries.
fn with_late(mut past: Arc<Vec<Entry>>, late: &[Entry]) -> Arc<Vec<Entry>> {
    for entry in late {
        let history = Arc::make_mut(&mut past);
        let same_turn = |known: &Entry| known.turn_id == entry.turn_id;
        let behind = history.iter().rposition(same_turn);
        let behind = behind.map_or(history.len(), |last| last + 1);
        history.insert(behind, entry.clone());
    }
    past
}

/// The entry of a message that cannot be refused any more; what cannot be read is named instead.
pub(super) fn rendered(
    author: &Author,
    item_id: &ItemId,
    input: &[UserInput],
) -> (Entry, Option<String>) {
    let refused = match author.user(item_id, input) {
        Ok(entry) => return (entry, None),
        Err(refused) => refused,
    };
    let omitted = format!("[left out: {refused}]");
    let words = |part: &UserInput| match part {
        UserInput::Text { .. } | UserInput::Skill { .. } | UserInput::Mention { .. } => {
            part.clone()
        }
        UserInput::Image(_)
        | UserInput::LocalImage { .. }
        | UserInput::Audio { .. }
        | UserInput::LocalAudio { .. } => UserInput::text(omitted.as_str()),
    };
    let words: Vec<UserInput> = input.iter().map(words).collect();
    let warning = Some(format!("part of a message was left out: {refused}"));
    match author.user(item_id, &words) {
        Ok(entry) => (entry, warning),
        // Words alone are never refused; a note would lose the item, but not the message.
        Err(_) => (author.note(&omitted), warning),
    }
}

/// An input without keys.
pub(super) fn clean_input(mut input: Vec<UserInput>, redactor: &Redactor) -> Vec<UserInput> {
    for part in &mut input {
        if let UserInput::Text { text, .. } = part {
            *text = redactor.text(text).into_owned();
        }
    }
    input
}

/// How full the context is when a turn begins.
///
/// The provider's last count is of use if it was of this history: there is output behind the last
/// compaction, and the count is not far beyond what the history can have. A revert or a compaction
/// since then leaves the count of a history that is gone; then the bytes are counted.
pub(super) fn load(setup: &Setup, history: &[Entry], body: &Body) -> Load {
    let mut load = Load::default();
    let behind = history.iter().rposition(|e| e.kind == EntryKind::Output);
    let compacted = history
        .iter()
        .rposition(|e| e.kind == EntryKind::Compaction);
    let (Some(counted), Some(behind)) = (setup.last_tokens, behind) else {
        return load;
    };
    if compacted.is_some_and(|compacted| compacted > behind) {
        return load;
    }
    let estimate = body.estimated_tokens();
    if counted <= estimate.saturating_mul(2) {
        let since: usize = history[behind + 1..].iter().map(|e| e.items.len()).sum();
        load.count(counted, estimate.saturating_sub(tokens_of(since)));
    }
    load
}
