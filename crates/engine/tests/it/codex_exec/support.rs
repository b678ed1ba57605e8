//! A fake Codex, and a lane that answers a foreign engine and keeps a transcript.
//!
//! The fake is a shell script named `exec` in the working directory, and the program is `/bin/sh`: its
//! first argument, `exec`, is then the script. So no test writes a file that it executes, which a
//! concurrent spawn of another test could make fail.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use turnlane_engine::codex_exec::{CodexExec, CodexExecLimits, CodexExecOptions, HistoryReader};
use turnlane_engine::codex_program::{CodexProgram, CodexProgramOptions};
use turnlane_engine::{
    Engine, Event, Fenced, LaneEnd, NoHooks, OutcomeStatus, Said, TurnKind, TurnOutcome,
    TurnRequest, TurnSettings, channel, run,
};
use turnlane_process::{Options, ProcessService};
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

/// The clock of every test.
pub(crate) const NOW_MS: i64 = 1_767_225_600_123;
/// The thread of the fake.
pub(crate) const THREAD: &str = "01a1e099-a4bd-7e00-8ac9-0161f278d518";

/// Functions for the scripts of fakes: `begin` tells thread and turn, `done_with TEXT` an answer and the
/// end.
const PRELUDE: &str = r#"
thread() { echo '{"type":"thread.started","thread_id":"01a1e099-a4bd-7e00-8ac9-0161f278d518"}'; }
begin() { thread; echo '{"type":"turn.started"}'; }
usage() { echo '{"type":"turn.completed","usage":{"input_tokens":'$1',"cached_input_tokens":40,"cache_write_input_tokens":0,"output_tokens":20,"reasoning_output_tokens":5}}'; }
done_with() { echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"'"$1"'"}}'; usage 100; }
"#;

/// An engine and a directory that vanishes, with a space in its path.
pub(crate) struct Fake {
    pub(crate) engine: Arc<CodexExec>,
    pub(crate) directory: TempDir,
}

/// Parts of the engine that a test may choose.
#[derive(Default)]
pub(crate) struct FakeOptions {
    pub(crate) limits: CodexExecLimits,
    pub(crate) program: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) history: Option<Arc<dyn HistoryReader>>,
}

impl Fake {
    /// A Codex that runs this script for every turn.
    pub(crate) fn new(script: &str) -> Self {
        Self::with(script, FakeOptions::default())
    }

    pub(crate) fn with(script: &str, options: FakeOptions) -> Self {
        let directory = tempfile::Builder::new().prefix("fake codex ").tempdir();
        let directory = directory.unwrap();
        std::fs::write(directory.path().join("exec"), format!("{PRELUDE}{script}")).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut environment = options.environment;
        environment.push(("PATH".into(), path));
        let program = CodexProgram::new(CodexProgramOptions {
            service: ProcessService::start(Options::default()).unwrap(),
            program: Some(options.program.unwrap_or_else(|| "/bin/sh".into())),
            environment,
            env_remove: Vec::new(),
        });
        let engine = CodexExec::new(CodexExecOptions {
            program,
            bypass: false,
            clock: Arc::new(|| NOW_MS),
            limits: options.limits,
            history: options.history,
            temporary: directory.path().to_owned(),
        });
        Self {
            engine: Arc::new(engine),
            directory,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn request(&self, text: &str) -> TurnRequest {
        request(self.directory.path(), text)
    }

    /// A turn of a thread that has one already.
    pub(crate) fn resumed(&self, text: &str) -> TurnRequest {
        let mut request = self.request(text);
        let state = json!({"v": 1, "threadId": THREAD, "total": null});
        request.engine_state = Some(RawValue::from_string(state.to_string()).unwrap());
        request
    }

    pub(crate) fn start(&self, request: TurnRequest) -> Lane {
        Lane::start(Arc::<CodexExec>::clone(&self.engine), request)
    }

    /// Runs a first turn to its end.
    pub(crate) async fn turn(&self, text: &str) -> Seen {
        self.start(self.request(text)).finish().await
    }

    /// Waits until the process whose id a script wrote into this file is gone.
    pub(crate) async fn assert_gone(&self, file: &str) {
        let pid = self.text(file);
        let gone = async || !is_alive(pid.trim());
        eventually("the end of a process", DEADLINE, gone)
            .await
            .unwrap();
    }

    /// Fails if that process lives now.
    pub(crate) fn assert_gone_now(&self, file: &str) {
        let pid = self.text(file);
        assert!(!is_alive(pid.trim()), "{file} lives");
    }
}

fn is_alive(pid: &str) -> bool {
    assert!(!pid.is_empty());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
}

pub(crate) fn request(cwd: &Path, text: &str) -> TurnRequest {
    TurnRequest {
        kind: TurnKind::Turn,
        thread_id: ThreadId::at(1, [1; 10]),
        turn_id: TurnId::at(2, [2; 10]),
        client_id: "row-1".to_owned(),
        attempt: 1,
        accepted_ms: NOW_MS,
        context: Vec::new(),
        engine_state: None,
        history: Arc::default(),
        unrecorded: Vec::new(),
        input: vec![UserInput::text(text)],
        item_id: Some("input".into()),
        settings: TurnSettings {
            model: String::new(),
            provider: String::new(),
            cwd: cwd.display().to_string(),
            runtime_workspace_roots: Vec::new(),
            environments: None,
            config: Map::new(),
            approval_policy: ApprovalPolicy::Never,
            sandbox_policy: SandboxPolicy::DangerFullAccess,
            requires_sandbox: false,
            effort: None,
            summary: None,
            service_tier: None,
            output_schema: None,
            base_instructions: None,
            developer_instructions: None,
        },
        runtime_tools: Vec::new(),
        command_variables: Vec::new(),
        thread_usage: None,
    }
}

/// A lane with a turn that runs.
pub(crate) struct Lane {
    pub(crate) end: LaneEnd,
    pub(crate) engine: JoinHandle<()>,
    pub(crate) seen: Seen,
    /// The answer to every question.
    pub(crate) fence: Result<(), Fenced>,
}

/// A transcript of a lane.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) lines: Vec<String>,
    pub(crate) started: Vec<String>,
    pub(crate) completed: Vec<Value>,
    pub(crate) state: Option<Box<RawValue>>,
    pub(crate) outcome: Option<TurnOutcome>,
}

impl Lane {
    pub(crate) fn start(engine: Arc<dyn Engine>, request: TurnRequest) -> Self {
        let (sink, control, end) = channel(Arc::new(NoHooks));
        Self {
            end,
            engine: tokio::spawn(run(engine, request, sink, control)),
            seen: Seen::default(),
            fence: Ok(()),
        }
    }

    /// Hears and answers one message; none when the engine is done.
    pub(crate) async fn step(&mut self) -> Option<()> {
        let said = within("the engine", DEADLINE, self.end.said.recv());
        let said = said.await.unwrap()?;
        self.seen.note(&said);
        match said {
            Said::HandingOver { reply, .. }
            | Said::Accepted(reply)
            | Said::SaveState { reply, .. }
            | Said::Commit(reply) => drop(reply.send(self.fence)),
            Said::Event(_) | Said::Ended(_) => {}
            other => panic!("not said by this engine: {other:?}"),
        }
        Some(())
    }

    /// Hears and answers until a line begins like this.
    pub(crate) async fn until(&mut self, begins: &str) {
        while self.seen.count(begins) == 0 {
            let more = self.step().await;
            assert!(more.is_some(), "no {begins}: {:#?}", self.seen.lines);
        }
    }

    pub(crate) async fn finish(mut self) -> Seen {
        while self.step().await.is_some() {}
        let ended = within("the engine's end", DEADLINE, self.engine);
        ended.await.unwrap().unwrap();
        self.seen.assert_whole();
        self.seen
    }
}

impl Seen {
    fn note(&mut self, said: &Said) {
        let line = match said {
            Said::Event(event) => self.note_event(event),
            Said::HandingOver { process, .. } => {
                assert!(process.is_none());
                "handing over".to_owned()
            }
            Said::Accepted(_) => "accepted".to_owned(),
            Said::SaveState { state, .. } => {
                self.state = Some(state.clone());
                format!("state {state}")
            }
            Said::Ended(outcome) => {
                self.outcome = Some(outcome.as_ref().clone());
                format!("ended {:?}", outcome.status)
            }
            other => format!("{other:?}"),
        };
        self.lines.push(line);
    }

    fn note_event(&mut self, event: &Event) -> String {
        match event {
            Event::ItemStarted(item) => {
                self.started.push(item.id.to_string());
                format!("started {}", item.type_word())
            }
            Event::ItemCompleted(item) => {
                self.completed.push(json!(item));
                format!("completed {}", item.type_word())
            }
            Event::Usage { last, .. } => format!("usage {}", last.total_tokens),
            Event::Warning(text) => format!("warning {text}"),
            Event::Retry(error) => format!("retry {}", error.message),
            other => format!("{other:?}"),
        }
    }

    pub(crate) fn count(&self, begins: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.starts_with(begins)).count()
    }

    pub(crate) fn outcome(&self) -> &TurnOutcome {
        self.outcome.as_ref().unwrap()
    }

    #[track_caller]
    pub(crate) fn assert_completed(&self) -> &Self {
        let (outcome, lines) = (self.outcome(), &self.lines);
        let status = outcome.status;
        assert_eq!(status, OutcomeStatus::Completed, "{outcome:?} {lines:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn assert_failed(&self, kind: ErrorKind) -> &TurnOutcome {
        let outcome = self.outcome();
        assert_eq!(outcome.status, OutcomeStatus::Failed, "{outcome:?}");
        let error = outcome.error.as_ref().unwrap();
        assert_eq!(error.kind, Some(kind), "{}", error.message);
        outcome
    }

    /// Every item that began has ended, once.
    fn assert_whole(&self) {
        let ended = self.completed.iter().map(|item| item["id"].as_str());
        let ended: Vec<_> = ended.map(|id| id.unwrap().to_owned()).collect();
        let all = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(all(&self.started), all(&ended), "{:#?}", self.lines);
        assert_eq!(self.started.len(), ended.len(), "{:#?}", self.lines);
        assert_eq!(all(&ended).len(), ended.len(), "{:#?}", self.lines);
    }
}
