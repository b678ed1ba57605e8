//! The shapes of both dialects of the exec-server, and what Codex was recorded to say in them.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turnlane_protocol::exec_server::process::{
    self, Closed, Exited, Output, ReadAnswer, ReadParams, Signal, SignalParams, StartAnswer,
    StartParams, StatusAnswer, TerminateMode, TerminateParams, WaitAnswer, WriteParams,
};
use turnlane_protocol::exec_server::{InitializeAnswer, InitializeParams, environment, fs, v0};

#[track_caller]
fn whole<T: Serialize + DeserializeOwned>(json: &Value) -> T {
    let value: T = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!(&serde_json::to_value(&value).unwrap(), json);
    value
}

#[test]
fn both_dialects_come_back_whole() {
    whole::<v0::InitializeAnswer>(&json!({"protocolVersion": "exec-server.v0"}));
    whole::<v0::ExecParams>(&json!({"argv": ["sh", "-c", "cat"], "cwd": "/w/app",
        "env": {"PATH": "/usr/bin:/bin"}, "tty": true, "arg0": null}));
    whole::<v0::ExecAnswer>(&json!({"sessionId": "session-1"}));
    whole::<v0::WriteParams>(&json!({"sessionId": "session-1", "chunk": "aGkK"}));
    whole::<v0::OutputDelta>(
        &json!({"sessionId": "session-1", "stream": "stdout", "chunk": "aGkNCg=="}),
    );
    whole::<v0::Exited>(&json!({"sessionId": "session-1", "exitCode": 137}));
    whole::<StartAnswer>(&json!({"processId": "p", "sandboxType": "none"}));
    whole::<Output>(&json!({"processId": "p", "seq": 1, "stream": "pty", "chunk": ""}));
    whole::<Exited>(
        &json!({"processId": "p", "seq": 2, "exitCode": 3, "sandboxDenied": false,
        "signal": 9, "reason": "terminated"}),
    );
    whole::<Closed>(&json!({"processId": "p", "seq": 3}));
    whole::<WaitAnswer>(
        &json!({"done": false, "exitCode": null, "signal": null, "reason": null,
        "closed": false, "survivors": 0}),
    );
}

#[test]
fn an_absent_session_to_resume_differs_from_null() {
    let absent: InitializeParams = whole(&json!({"clientName": "x"}));
    let null: InitializeParams = whole(&json!({"clientName": "x", "resumeSessionId": null}));
    let named: InitializeParams = whole(&json!({"clientName": "x", "resumeSessionId": "s"}));
    assert_eq!(absent.resume_session_id, None);
    assert_eq!(null.resume_session_id, Some(None));
    assert_eq!(named.resume_session_id, Some(Some("s".to_owned())));
}

#[test]
fn ends_have_a_mode_and_signals_a_name() {
    let params: TerminateParams =
        serde_json::from_value(json!({"processId": "p", "mode": {"type": "graceful"}})).unwrap();
    let graceful = TerminateMode::Graceful {
        interrupt_ms: 0,
        timeout_ms: 2000,
    };
    assert_eq!(params.mode, Some(graceful));
    let signal = |name: &str| {
        serde_json::from_value::<SignalParams>(json!({"processId": "p", "signal": name}))
    };
    assert_eq!(signal("usr1").unwrap().signal, Signal::Usr1);
    let unknown = signal("SIGINT").unwrap_err().to_string();
    assert!(
        unknown.starts_with("unknown variant `SIGINT`, expected one of `interrupt`"),
        "{unknown}"
    );
}

/// Every recorded request and answer of the methods we serve fits its type.
#[test]
fn what_codex_was_recorded_to_say_is_understood() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/transcripts/exec-server");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        use std::io::Write as _;
        _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no recorded traffic beside the repository"
        );
        return;
    };
    let mut understood = 0;
    for entry in entries {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut methods = std::collections::BTreeMap::new();
        for line in text.lines() {
            let Some((_, message)) = line.split_once("> ") else {
                continue;
            };
            let Ok(message) = serde_json::from_str::<Value>(message) else {
                continue;
            };
            if let Some(method) = message["method"].as_str() {
                methods.insert(message["id"].to_string(), method.to_owned());
                understood += usize::from(params_fit(method, &message["params"]));
            } else if let (Some(result), Some(method)) = (
                message.get("result"),
                methods.get(&message["id"].to_string()),
            ) {
                understood += usize::from(answer_fits(method, result));
            }
        }
    }
    assert!(understood > 200, "only {understood} messages");
}

/// Whether the params are of a method we know; panics if they do not fit it. Recordings hold wrong
/// ones too, on purpose; those lack what every right one has.
fn params_fit(method: &str, params: &Value) -> bool {
    let fits = |right: bool, result: Result<(), serde_json::Error>| {
        assert!(!right || result.is_ok(), "{method} {params}: {result:?}");
        result.is_ok()
    };
    let has = |member: &str| params.get(member).is_some();
    match method {
        "initialize" => fits(
            has("clientName") && has("resumeSessionId"),
            read::<InitializeParams>(params),
        ),
        process::START => fits(has("tty"), read::<StartParams>(params)),
        process::READ => fits(has("waitMs"), read::<ReadParams>(params)),
        process::WRITE => fits(false, read::<WriteParams>(params)),
        process::TERMINATE => fits(has("processId"), read::<TerminateParams>(params)),
        process::OUTPUT => fits(has("processId"), read::<Output>(params)),
        process::EXITED => fits(has("processId"), read::<Exited>(params)),
        process::CLOSED => fits(has("processId"), read::<Closed>(params)),
        fs::GET_METADATA | fs::READ_FILE => fits(has("path"), read::<fs::PathParams>(params)),
        fs::WRITE_FILE => fits(has("dataBase64"), read::<fs::WriteFileParams>(params)),
        _ => false,
    }
}

fn answer_fits(method: &str, result: &Value) -> bool {
    let read = match method {
        "initialize" if result.get("sessionId").is_some() => read::<InitializeAnswer>(result),
        environment::INFO => read::<environment::EnvironmentInfo>(result),
        process::START => read::<StartAnswer>(result),
        process::READ => read::<ReadAnswer>(result),
        process::WRITE => read::<StatusAnswer>(result),
        process::TERMINATE => read::<process::TerminateAnswer>(result),
        fs::GET_METADATA => read::<fs::Metadata>(result),
        fs::READ_FILE => read::<fs::ReadFileAnswer>(result),
        _ => return false,
    };
    assert!(read.is_ok(), "answer to {method}: {result}: {read:?}");
    true
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(&value.to_string()).map(drop)
}
