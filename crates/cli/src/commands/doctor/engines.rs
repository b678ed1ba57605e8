//! The engines that are other programs: whether Codex is here, which version it has, and whether it is
//! logged in.
//!
//! The invariant here: Codex is needed only where it runs new threads. Elsewhere its absence is fine, and
//! a login that cannot be seen is never called broken, because Codex has more ways to log in than a file
//! and a variable. The program is looked for as this process would; a daemon may have another PATH.

use std::path::PathBuf;

use serde_json::json;
use turnlane_engine::codex_program::{CodexLogin, CodexProgram, CodexProgramError, CodexVersion};
use turnlane_process::{Begin, Options, ProcessService};

use super::{Finding, Mark, Part, Verdict};
use crate::assembly;
use crate::config::{Config, is_codex};
use crate::defaults;

/// The first version whose app-server has everything that the engine `codex` uses.
const OLDEST: CodexVersion = CodexVersion::new(0, 151, 0);

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

/// The login that threads of this configuration need.
fn login(program: &CodexProgram, config: &Config) -> CodexLogin {
    let provider = config.shared.get("model_provider");
    let provider = provider.and_then(|id| id.as_str());
    program.login(provider.filter(|id| *id != defaults::PROVIDER))
}

/// What was found of Codex.
struct CodexState {
    file: Option<PathBuf>,
    version: Result<CodexVersion, CodexProgramError>,
    login: CodexLogin,
}

impl CodexState {
    fn verdict(&self, engine: &str) -> Verdict {
        match &self.version {
            Err(error) => Verdict::No(error.to_string()),
            Ok(version) if engine == "codex" && *version < OLDEST => Verdict::No(format!(
                "engine 'codex' needs Codex 0.151 or newer, found {version}; use 'codex-exec'"
            )),
            Ok(_) => match &self.login {
                CodexLogin::Missing(reason) => Verdict::No(reason.clone()),
                _ => Verdict::Yes,
            },
        }
    }

    fn tell(&self, part: &mut Part, needed: bool) {
        let absent = if needed { Mark::Fix } else { Mark::Fine };
        let shown = self.file.as_ref().map(|file| file.display().to_string());
        let version = self.version.as_ref().ok().map(ToString::to_string);
        part.facts.insert(
            "codex".to_owned(),
            json!({"program": shown, "version": version, "login": fact(&self.login)}),
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
        part.findings.push(finding(&self.login, absent));
    }
}

/// The login in the facts for programs.
fn fact(login: &CodexLogin) -> Option<String> {
    match login {
        CodexLogin::File(file) => Some(file.display().to_string()),
        CodexLogin::Variable(name) => Some(name.clone()),
        CodexLogin::Provider(id) => Some(id.clone()),
        CodexLogin::Unseen | CodexLogin::Missing(_) => None,
    }
}

/// What is said of the login, with the mark of one that is missing.
fn finding(login: &CodexLogin, absent: Mark) -> Finding {
    let name = "login";
    match login {
        CodexLogin::File(file) => Finding::new(Mark::Yes, name, file.display().to_string()),
        CodexLogin::Variable(variable) => {
            Finding::new(Mark::Yes, name, format!("{variable} is set"))
        }
        CodexLogin::Provider(id) => {
            let text = format!("Codex uses the provider `{id}` of the configuration");
            Finding::new(Mark::Yes, name, text)
        }
        CodexLogin::Unseen => {
            let text = "Codex keeps its login where it cannot be seen from here";
            Finding::new(Mark::Fine, name, text)
        }
        CodexLogin::Missing(reason) => Finding::new(absent, name, reason.clone())
            .next("type `codex login` before the engines `codex` and `codex-exec` run turns"),
    }
}
