//! The real Codex with a mock model. Needs the Codex CLI of the pinned version: `TURNLANE_TEST_CODEX`
//! names its program; without it these tests say that they were skipped.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use serde_json::value::RawValue;
use turnlane_engine::codex_exec::{CodexExec, CodexExecLimits, CodexExecOptions};
use turnlane_engine::codex_program::{CodexProgram, CodexProgramOptions, CodexVersion};
use turnlane_engine::{Accepted, CancelReason, Engine as _, OutcomeStatus, TurnRequest};
use turnlane_process::{Options, ProcessService};
use turnlane_protocol::input::{ImageInput, ImageSource, UserInput};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_protocol::usage::TokenCounts;
use turnlane_testkit::mock_model::{At, Item, MockModel, Reply, Usage};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, ProcessSpec, TempHome, TestProcess, skipped};

use super::support::{Lane, NOW_MS, Seen, request};

/// The engine removes variables that begin with `TURNLANE_`, so the key needs another name.
const KEY_VARIABLE: &str = "MOCK_PROVIDER_KEY";

/// A pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Codex, its home and its model.
struct Codex {
    program: String,
    home: TempHome,
    mock: MockModel,
    child_program: CodexProgram,
    engine: Arc<CodexExec>,
}

impl Codex {
    async fn start() -> Option<Self> {
        let Ok(program) = std::env::var("TURNLANE_TEST_CODEX") else {
            skipped("codex-exec with the real Codex: TURNLANE_TEST_CODEX does not name it");
            return None;
        };
        let mock = MockModel::start().await.unwrap();
        let home = TempHome::new().unwrap();
        home.use_model(&mock.base_url()).unwrap();
        let config = home.codex().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace(MOCK_KEY_VARIABLE, KEY_VARIABLE)).unwrap();
        let codex = CodexProgram::new(CodexProgramOptions {
            service: ProcessService::start(Options::default()).unwrap(),
            program: Some(program.clone().into()),
            environment: environment(&home),
            env_remove: Vec::new(),
        });
        let engine = CodexExec::new(CodexExecOptions {
            program: codex.clone(),
            bypass: false,
            clock: Arc::new(|| NOW_MS),
            limits: CodexExecLimits {
                busy_waits: vec![Duration::from_millis(200); 100],
                ..CodexExecLimits::default()
            },
            history: None,
            temporary: home.path().to_owned(),
        });
        Some(Self {
            program,
            home,
            mock,
            child_program: codex,
            engine: Arc::new(engine),
        })
    }

    fn request(&self, text: &str, state: Option<&RawValue>) -> TurnRequest {
        let mut request = request(&self.home.workspace(), text);
        request.engine_state = state.map(ToOwned::to_owned);
        request
    }

    fn lane(&self, request: TurnRequest) -> Lane {
        Lane::start(Arc::<CodexExec>::clone(&self.engine), request)
    }

    async fn turn(&self, text: &str, state: Option<&RawValue>) -> Seen {
        self.lane(self.request(text, state)).finish().await
    }
}

fn environment(home: &TempHome) -> Vec<(OsString, OsString)> {
    let pair = |(name, value): (String, String)| (name.into(), value.into());
    let mut environment: Vec<_> = home.env().into_iter().map(pair).collect();
    environment.push((KEY_VARIABLE.into(), MOCK_KEY.into()));
    environment
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::SAMPLE
    }
}

fn sample(input_tokens: i64, output_tokens: i64) -> TokenCounts {
    TokenCounts {
        input_tokens,
        cached_input_tokens: 40,
        cache_write_input_tokens: 7,
        output_tokens,
        reasoning_output_tokens: 5,
    }
}

#[tokio::test]
async fn two_turns_of_one_thread_have_their_own_usage() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    codex
        .mock
        .push(Reply::text("first answer").usage(usage(1000, 50)));
    codex
        .mock
        .push(Reply::text("second answer").usage(usage(300, 30)));
    let first = codex.turn("say one", None).await;
    let outcome = first.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("first answer"));
    assert_eq!(outcome.usage, Some(sample(1000, 50)));
    let second = codex.turn("say two", first.state.as_deref()).await;
    let outcome = second.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("second answer"));
    assert_eq!(outcome.usage, Some(sample(300, 30)));
    assert_eq!(second.count("usage 330"), 1);
    // One conversation: the model was told the first turn too.
    let last = codex.mock.requests().last().unwrap().clone();
    let input = json!(last.input()).to_string();
    assert!(
        input.contains("say one") && input.contains("first answer"),
        "{input}"
    );
}

#[tokio::test]
async fn another_writer_of_the_thread_is_waited_for() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    codex.mock.push(Reply::text("first"));
    let first = codex.turn("one", None).await;
    let state: serde_json::Value =
        serde_json::from_str(first.assert_completed().state.as_ref().unwrap().get()).unwrap();
    let (slow, gate) = Reply::text("slow").gated(At::LastEvent);
    codex.mock.on_text("slowly", slow);
    codex.mock.on_text("waiting", Reply::text("then"));
    let args = [
        "exec",
        "--json",
        "--skip-git-repo-check",
        "resume",
        state["threadId"].as_str().unwrap(),
        "slowly",
    ];
    let pairs = environment(&codex.home);
    let spec = ProcessSpec::new(&codex.program).args(args).envs(pairs);
    let mut other = TestProcess::start(spec.current_dir(codex.home.workspace())).unwrap();
    drop(other.take_stdin());
    let arrived = async || gate.arrivals() > 0;
    eventually("the other writer", DEADLINE, arrived)
        .await
        .unwrap();
    let mut lane = codex.lane(codex.request("waiting", first.state.as_deref()));
    lane.until("retry").await;
    assert!(
        lane.seen
            .lines
            .last()
            .unwrap()
            .contains("already has an active writer")
    );
    gate.release();
    let seen = lane.finish().await;
    let outcome = seen.assert_completed().outcome();
    assert_eq!(outcome.last_agent_message.as_deref(), Some("then"));
}

#[tokio::test]
async fn an_interrupt_ends_the_command_and_the_thread_goes_on() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    let pid = codex.home.workspace().join("pid");
    let cmd = "echo $$ > pid; sleep 1000";
    let call = Item::function_call("exec_command", json!({"cmd": cmd, "yield_time_ms": 30000}));
    codex.mock.push(Reply::of([call]));
    let mut lane = codex.lane(codex.request("run it", None));
    lane.until("started commandExecution").await;
    let written = async || std::fs::read_to_string(&pid).is_ok_and(|pid| !pid.trim().is_empty());
    eventually("the command", DEADLINE, written).await.unwrap();
    lane.end.cancel.cancel(CancelReason::Interrupt);
    let seen = lane.finish().await;
    let outcome = seen.outcome();
    assert_eq!(
        (outcome.status, outcome.accepted),
        (OutcomeStatus::Interrupted, Accepted::Yes)
    );
    assert_eq!(seen.completed[0]["status"], "failed");
    let pid = std::fs::read_to_string(pid).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // One that has ended may wait for its parent to notice.
    let has_ended = stat.as_ref().map_or(true, |stat| stat.contains(") Z "));
    assert!(has_ended, "the command lives: {stat:?}");
    codex.mock.push(Reply::text("back"));
    let next = codex.turn("go on", seen.state.as_deref()).await;
    assert_eq!(
        next.assert_completed()
            .outcome()
            .last_agent_message
            .as_deref(),
        Some("back")
    );
}

#[tokio::test]
async fn settings_images_and_schema_reach_the_model() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    codex.mock.push(Reply::text("{\"ok\":true}"));
    codex.mock.push(Reply::text("{\"ok\":true}"));
    let mut request = codex.request("look at this", None);
    request.context = vec!["a note of a hook".to_owned()];
    let url = format!("data:image/png;base64,{PNG}");
    assert!(STANDARD.decode(PNG).is_ok());
    request.input.push(UserInput::Image(ImageInput {
        source: ImageSource::Url(url),
        detail: None,
    }));
    let settings = &mut request.settings;
    settings.model = "mock-model-2".to_owned();
    settings.provider = "mock".to_owned();
    settings.base_instructions = Some("You are a test pilot.".to_owned());
    settings.developer_instructions = Some("Mind the \"quotes\"\nand lines.".to_owned());
    settings.output_schema = Some(
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"], "additionalProperties": false}),
    );
    let first = codex.lane(request.clone()).finish().await;
    first.assert_completed();
    // The same on a resumed thread, where images stand behind `resume`.
    request.engine_state = first.state;
    codex.lane(request).finish().await.assert_completed();
    let sent = codex.mock.requests();
    assert_eq!(sent.len(), 2);
    for sent in sent {
        assert_eq!(sent.model(), "mock-model-2");
        let body = json!(sent.input()).to_string();
        assert!(
            body.contains("a note of a hook\\n\\nlook at this"),
            "{body}"
        );
        assert!(body.contains("input_image"), "{body}");
        assert!(
            body.contains("Mind the \\\"quotes\\\"\\nand lines."),
            "{body}"
        );
        let all = sent.body.to_string();
        assert!(all.contains("You are a test pilot."), "{all}");
        assert!(all.contains("json_schema"), "{all}");
    }
}

#[tokio::test]
async fn refusals_of_codex_have_their_kinds() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    // Codex has counted tokens there, so that the thread is not one that never came to be.
    let total = json!(TokenCounts {
        input_tokens: 7,
        ..TokenCounts::default()
    });
    let unknown =
        json!({"v": 1, "threadId": "01a1e099-0000-7000-8000-000000000000", "total": total});
    let unknown = RawValue::from_string(unknown.to_string()).unwrap();
    let seen = codex.turn("x", Some(&unknown)).await;
    let outcome = seen.assert_failed(ErrorKind::ThreadNotFound);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::No, false));
    let mut request = codex.request("x", None);
    request.settings.provider = "nope".to_owned();
    let seen = codex.lane(request).finish().await;
    let outcome = seen.assert_failed(ErrorKind::EngineRefused);
    let error = outcome.error.as_ref().unwrap();
    assert_eq!(error.message, "Model provider `nope` not found");
    assert!(codex.mock.requests().is_empty());
}

#[tokio::test]
async fn the_pinned_version_passes_the_check() {
    let Some(codex) = Codex::start().await else {
        return;
    };
    let settings = codex.request("x", None).settings;
    let status = codex.engine.check(&settings).await;
    assert_eq!((status.ok, status.reason), (true, None));
    assert!(codex.child_program.version().await.unwrap() >= CodexVersion::new(0, 166, 0));
}
