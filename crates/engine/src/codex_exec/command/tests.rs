//! Command lines, argument by argument.

use serde_json::{Map, json};
use tempfile::TempDir;
use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::method::ReasoningSummary;

use super::*;

const THREAD: &str = "01a1e099-a4bd-7e00-8ac9-0161f278d518";

fn request() -> TurnRequest {
    TurnRequest {
        kind: TurnKind::Turn,
        thread_id: ThreadId::at(1, [1; 10]),
        turn_id: TurnId::at(2, [2; 10]),
        client_id: "row".to_owned(),
        attempt: 1,
        accepted_ms: 0,
        context: Vec::new(),
        engine_state: None,
        history: std::sync::Arc::default(),
        unrecorded: Vec::new(),
        input: vec![UserInput::text("do it\n")],
        item_id: None,
        settings: TurnSettings {
            model: String::new(),
            provider: String::new(),
            cwd: "/work".to_owned(),
            runtime_workspace_roots: Vec::new(),
            environments: None,
            config: Map::new(),
            approval_policy: ApprovalPolicy::OnRequest,
            sandbox_policy: SandboxPolicy::from_mode("read-only").unwrap(),
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

fn prepared(request: &TurnRequest, thread: Option<&str>) -> Result<ExecCommand, CommandError> {
    prepare(request, thread, false, std::env::temp_dir())
}

fn args(command: &ExecCommand) -> Vec<&str> {
    command
        .args
        .iter()
        .map(|arg| arg.to_str().unwrap())
        .collect()
}

#[track_caller]
fn assert_refused(request: &TurnRequest, kind: ErrorKind) {
    let error = prepared(request, None).unwrap_err().to_error();
    assert_eq!(error.kind, Some(kind), "{}", error.message);
}

#[test]
fn a_first_turn_names_only_what_the_caller_named() {
    let command = prepared(&request(), None).unwrap();
    let never = "approval_policy=\"never\"";
    let expected = [
        "exec",
        "--json",
        "-c",
        never,
        "-s",
        "read-only",
        "--skip-git-repo-check",
        "-",
    ];
    assert_eq!(args(&command), expected);
    assert_eq!(command.prompt, "do it\n");
    assert_eq!(command.cwd, Path::new("/work"));
}

#[test]
fn all_options_stand_before_resume() {
    let mut request = request();
    let settings = &mut request.settings;
    settings.model = "m-1".to_owned();
    settings.provider = "mock".to_owned();
    settings.effort = Some("high".to_owned());
    settings.summary = Some(ReasoningSummary::Detailed);
    settings.developer_instructions = Some("be\nbrief".to_owned());
    let config = [
        ("hide_agent_reasoning", json!(true)),
        ("model_verbosity", json!(null)),
    ];
    settings
        .config
        .extend(config.map(|(key, value)| (key.to_owned(), value)));
    settings.sandbox_policy = SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
        writable_roots: vec!["/more".to_owned()],
        network_access: true,
        ..WorkspaceWrite::default()
    });
    let command = prepared(&request, Some(THREAD)).unwrap();
    assert_eq!(
        args(&command),
        [
            "exec",
            "--json",
            "-m",
            "m-1",
            "-c",
            "hide_agent_reasoning=true",
            "-c",
            "model_provider=\"mock\"",
            "-c",
            "model_reasoning_effort=\"high\"",
            "-c",
            "developer_instructions=\"be\\nbrief\"",
            "-c",
            "approval_policy=\"never\"",
            "-c",
            "model_reasoning_summary=\"detailed\"",
            "-c",
            "sandbox_workspace_write.network_access=true",
            "-c",
            "sandbox_workspace_write.exclude_tmpdir_env_var=false",
            "-c",
            "sandbox_workspace_write.exclude_slash_tmp=false",
            "-c",
            "sandbox_workspace_write.writable_roots=[]",
            "-s",
            "workspace-write",
            "--add-dir",
            "/more",
            "--skip-git-repo-check",
            "resume",
            THREAD,
            "-",
        ]
    );
}

#[test]
fn context_stands_before_the_prompt() {
    let mut request = request();
    request.context = vec!["one".to_owned(), "two".to_owned()];
    let mention = UserInput::Mention {
        name: "a".to_owned(),
        path: "/a".to_owned(),
    };
    request.input.push(mention);
    assert_eq!(prompt(&request).unwrap(), "one\n\ntwo\n\ndo it\n\n@a: /a");
}

#[test]
fn schema_and_instructions_are_files_of_the_turn() {
    let home = TempDir::new().unwrap();
    let mut request = request();
    request.settings.output_schema = Some(json!({"type": "object"}));
    request.settings.base_instructions = Some("You are terse.".to_owned());
    let command = prepare(&request, None, false, home.path().to_owned()).unwrap();
    let all = args(&command);
    let after = |name: &str| all[all.iter().position(|arg| *arg == name).unwrap() + 1];
    let schema = std::fs::read_to_string(after("--output-schema")).unwrap();
    assert_eq!(schema, r#"{"type":"object"}"#);
    assert!(
        all.iter()
            .any(|arg| arg.starts_with("model_instructions_file=\""))
    );
    drop(command);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn nothing_positional_follows_images() {
    let home = TempDir::new().unwrap();
    let mut request = request();
    let local = |path: &str| UserInput::LocalImage {
        path: path.to_owned(),
        detail: None,
    };
    let url = format!("data:image/gif;base64,{}", STANDARD.encode(b"GIF89a"));
    request.input.push(local("a.png"));
    request.input.push(UserInput::Image(ImageInput {
        source: ImageSource::Url(url),
        detail: None,
    }));
    request.input.push(local("/pics/a,b.jpg"));
    let command = prepare(&request, Some(THREAD), false, home.path().to_owned()).unwrap();
    let all = args(&command);
    let resume = all.iter().position(|arg| *arg == "resume").unwrap();
    let [_, thread, first, one, second, two, third, three] = all[resume..] else {
        panic!("{all:?}");
    };
    assert_eq!((thread, one), (THREAD, "/work/a.png"));
    assert_eq!([first, second, third], ["--image"; 3]);
    assert_eq!(std::fs::read(two).unwrap(), b"GIF89a");
    assert!(
        two.ends_with("2.gif") && three.ends_with("3.jpg"),
        "{two} {three}"
    );
    assert_eq!(
        std::fs::read_link(three).unwrap(),
        Path::new("/pics/a,b.jpg")
    );
}

#[test]
fn the_bypass_needs_the_setting_and_full_access() {
    let mut request = request();
    request.settings.sandbox_policy = SandboxPolicy::DangerFullAccess;
    let flag = "--dangerously-bypass-approvals-and-sandbox";
    let with = |request: &TurnRequest, bypass| {
        let command = prepare(request, None, bypass, std::env::temp_dir()).unwrap();
        let all = args(&command);
        (all.contains(&flag), all.contains(&"danger-full-access"))
    };
    assert_eq!(with(&request, true), (true, false));
    assert_eq!(with(&request, false), (false, true));
    request.settings.sandbox_policy = SandboxPolicy::from_mode("read-only").unwrap();
    assert_eq!(with(&request, true), (false, false));
}

#[test]
fn settings_that_codex_exec_cannot_honour_are_refused() {
    let refused = |change: &dyn Fn(&mut TurnRequest), kind| {
        let mut request = request();
        change(&mut request);
        assert_refused(&request, kind);
    };
    let unsupported = ErrorKind::Unsupported;
    refused(
        &|r| r.settings.approval_policy = ApprovalPolicy::Untrusted,
        unsupported.clone(),
    );
    refused(
        &|r| r.settings.environments = Some(Vec::new()),
        unsupported.clone(),
    );
    refused(&|r| r.kind = TurnKind::Compact, unsupported.clone());
    // Without a thread of Codex there is nothing to go on from.
    refused(&|r| r.kind = TurnKind::Continue, unsupported.clone());
    let read_only = SandboxPolicy::ReadOnly {
        network_access: true,
    };
    refused(
        &|r| r.settings.sandbox_policy = read_only.clone(),
        unsupported.clone(),
    );
    let external = SandboxPolicy::ExternalSandbox {
        network_access: NetworkAccess::Restricted,
    };
    refused(
        &|r| r.settings.sandbox_policy = external.clone(),
        unsupported.clone(),
    );
    let open = |r: &mut TurnRequest| {
        r.settings.sandbox_policy = SandboxPolicy::DangerFullAccess;
        r.settings.requires_sandbox = true;
    };
    refused(&open, unsupported.clone());
    let sound = UserInput::LocalAudio {
        path: "a".to_owned(),
    };
    refused(&|r| r.input.push(sound.clone()), unsupported.clone());
    let kept = UserInput::Image(ImageInput {
        source: ImageSource::FileId("f".to_owned()),
        detail: None,
    });
    refused(&|r| r.input.push(kept.clone()), unsupported);
    let remote = UserInput::Image(ImageInput {
        source: ImageSource::Url("https://example.org/a.png".to_owned()),
        detail: None,
    });
    refused(&|r| r.input.push(remote.clone()), ErrorKind::BadRequest);
    let key = |r: &mut TurnRequest| {
        r.settings.sandbox_policy = SandboxPolicy::DangerFullAccess;
        r.settings.config.insert("a=b".to_owned(), json!(1));
    };
    refused(&key, ErrorKind::BadRequest);
    let program = |r: &mut TurnRequest| {
        r.settings.config.insert("notify".to_owned(), json!(["sh"]));
    };
    refused(&program, ErrorKind::Unsupported);
    let long = |r: &mut TurnRequest| r.settings.developer_instructions = Some("x".repeat(200_000));
    refused(&long, ErrorKind::BadRequest);
}

#[test]
fn a_continued_turn_resumes_the_thread_and_says_that_the_work_goes_on() {
    let mut continued = request();
    continued.kind = TurnKind::Continue;
    continued.input.clear();
    let command = prepared(&continued, Some("th-1")).unwrap();
    let args: Vec<_> = command
        .args
        .iter()
        .map(|arg| arg.to_str().unwrap())
        .collect();
    let resume = args.iter().position(|arg| *arg == "resume").unwrap();
    assert_eq!(args[resume..], ["resume", "th-1", "-"]);
    assert!(command.prompt.starts_with("The server stopped while"));
    // A worker that dies under it finds it in Codex's history by the same text.
    assert_eq!(prompt(&continued).unwrap(), command.prompt);
}
