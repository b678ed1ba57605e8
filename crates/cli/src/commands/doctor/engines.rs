//! The engines that are other programs: whether Codex is here, which version it has, and whether it is
//! logged in.
//!
//! The invariant here: Codex is needed only where it runs new threads. Elsewhere its absence is fine, and
//! a login that cannot be seen is never called broken, because Codex has more ways to log in than a file
//! and a variable. The program is looked for as this process would; a daemon may have another PATH.

use std::path::PathBuf;

use serde_json::json;
use turnlane_engine::codex_program::{CodexProgram, CodexProgramError, CodexVersion};
use turnlane_process::{Begin, Options, ProcessService};

use super::{Finding, Mark, Part, Verdict};
use crate::assembly;
use crate::config::{Config, is_codex};
use crate::defaults;

/// The first version whose app-server has everything that the engine `codex` uses.
const OLDEST: CodexVersion = CodexVersion::new(0, 151, 0);

/// Variables that Codex takes the key of its usual provider from.
const KEYS: [&str; 2] = ["CODEX_API_KEY", "OPENAI_API_KEY"];

/// Looks for Codex; the verdict is none where `engine` does not need it.
pub(super) async fn look(config: &Config, engine: &str) -> (Part, Option<Verdict>) {
    let mut part = Part::new("Engines: programs that can run turns besides Turnlane itself");
    let program = match program(config) {
        Ok((program, service)) => {
            let version = program.version().await;
            let file = program.find().await.ok();
            service.stop().await;
            CodexState {
                login: login(&program, config),
                file,
                version,
            }
        }
        // What is wrong with processes is told in the part about them.
        Err(_) => return (part, None),
    };
    let needed = is_codex(engine);
    let verdict = program.verdict(engine);
    program.tell(&mut part, needed);
    (part, needed.then_some(verdict))
}

fn program(config: &Config) -> anyhow::Result<(CodexProgram, ProcessService)> {
    let service = ProcessService::start(Options {
        begin: Begin::WhenNeeded,
        ..Options::default()
    })?;
    let options = assembly::codex_options(&config.server.engine, &service);
    Ok((CodexProgram::new(options), service))
}

/// How Codex reaches its models, as far as it can be seen from outside.
enum Login {
    File(PathBuf),
    Variable(&'static str),
    /// A provider of the configuration, with a key of its own or none.
    Provider(String),
    Unseen,
}

fn login(program: &CodexProgram, config: &Config) -> Login {
    let provider = config.shared.get("model_provider");
    if let Some(id) = provider.and_then(|id| id.as_str())
        && id != defaults::PROVIDER
    {
        return Login::Provider(id.to_owned());
    }
    let is_set = |name: &&str| program.variable(name).is_some_and(|key| !key.is_empty());
    if let Some(name) = KEYS.into_iter().find(is_set) {
        return Login::Variable(name);
    }
    let file = program.codex_home().map(|home| home.join("auth.json"));
    match file.filter(|file| file.exists()) {
        Some(file) => Login::File(file),
        None => Login::Unseen,
    }
}

/// What was found of Codex.
struct CodexState {
    file: Option<PathBuf>,
    version: Result<CodexVersion, CodexProgramError>,
    login: Login,
}

impl CodexState {
    fn verdict(&self, engine: &str) -> Verdict {
        match &self.version {
            Err(error) => Verdict::No(error.to_string()),
            Ok(version) if engine == "codex" && *version < OLDEST => Verdict::No(format!(
                "engine 'codex' needs Codex 0.151 or newer, found {version}; use 'codex-exec'"
            )),
            Ok(_) => Verdict::Yes,
        }
    }

    fn tell(&self, part: &mut Part, needed: bool) {
        let absent = if needed { Mark::Fix } else { Mark::Fine };
        let shown = self.file.as_ref().map(|file| file.display().to_string());
        let version = self.version.as_ref().ok().map(ToString::to_string);
        part.facts.insert(
            "codex".to_owned(),
            json!({"program": shown, "version": version, "login": self.login.fact()}),
        );
        let version = match &self.version {
            Ok(version) => version,
            Err(error) => {
                let found = Finding::new(absent, "codex", error.to_string());
                let next = "npm install -g @openai/codex, or name the program in \
                            [engine.codex] program of config.toml";
                part.findings.push(found.next(next));
                return;
            }
        };
        let file = shown.unwrap_or_default();
        let text = format!("{file}, version {version}");
        part.findings.push(if *version < OLDEST {
            Finding::new(absent, "codex", text).next(
                "the engine `codex` needs version 0.151 or newer; `codex-exec` works with this one",
            )
        } else {
            Finding::new(Mark::Yes, "codex", text)
        });
        part.findings.push(self.login.finding());
    }
}

impl Login {
    fn fact(&self) -> Option<String> {
        match self {
            Self::File(file) => Some(file.display().to_string()),
            Self::Variable(name) => Some((*name).to_owned()),
            Self::Provider(id) => Some(id.clone()),
            Self::Unseen => None,
        }
    }

    fn finding(&self) -> Finding {
        let name = "login";
        match self {
            Self::File(file) => Finding::new(Mark::Yes, name, file.display().to_string()),
            Self::Variable(variable) => Finding::new(Mark::Yes, name, format!("{variable} is set")),
            Self::Provider(id) => {
                let text = format!("Codex uses the provider `{id}` of the configuration");
                Finding::new(Mark::Yes, name, text)
            }
            Self::Unseen => {
                let text = "Codex has neither an auth.json nor a key in the environment";
                Finding::new(Mark::Fine, name, text).next(
                    "type `codex login` before the engines `codex` and `codex-exec` run turns",
                )
            }
        }
    }
}
