//! What the configuration becomes for a turn.

use super::*;
use serde_json::json;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};

fn settings(config: &Value) -> TurnSettings {
    TurnSettings {
        model: "m".to_owned(),
        provider: "x".to_owned(),
        cwd: "/home/me/project/deep".to_owned(),
        runtime_workspace_roots: vec![],
        environments: None,
        config: config.as_object().unwrap().clone(),
        approval_policy: ApprovalPolicy::Never,
        sandbox_policy: SandboxPolicy::DangerFullAccess,
        requires_sandbox: false,
        effort: None,
        summary: None,
        service_tier: None,
        output_schema: None,
        base_instructions: None,
        developer_instructions: None,
    }
}

fn config(shared: &Value, native: &Value) -> NativeConfig {
    let shared = shared.as_object().unwrap().clone();
    let mut config = NativeConfig {
        shared,
        native: native.as_object().unwrap().clone(),
        keys: KeyFile::default(),
    };
    let provider = json!({"x": {"base_url": "http://localhost:1/v1"}});
    config.shared.insert("model_providers".to_owned(), provider);
    config
}

fn read(shared: &Value, native: &Value, thread: &Value) -> Result<TurnConfig, String> {
    let read = TurnConfig::read(&config(shared, native), &settings(thread), Some("/bin/zsh"));
    read.map_err(|error| error.to_string())
}

#[test]
fn what_nobody_configured_has_the_contracts_values() {
    let read = read(&json!({}), &json!({}), &json!({})).unwrap();
    assert_eq!(read.window, 272_000);
    assert_eq!(read.rounds_max, 200);
    assert_eq!(read.documents.bytes_max, 32_768);
    assert_eq!(read.documents.markers, [".git"]);
    assert_eq!(read.documents.trust, Trust::Trusted);
    let expected = ToolSettings {
        environment: CommandEnvironment::default().policy,
        shell: "/bin/zsh".to_owned(),
        login: LoginShell::No,
        dangerous: Dangerous::Guarded,
        parallel_max: 8,
        output_tokens_max: 10_000,
        pictures: Pictures::Taken,
        withheld: BTreeSet::new(),
        variables: Vec::new(),
    };
    assert_eq!(read.tools, expected);
    assert_eq!(read.effort, None);
}

#[test]
fn keys_of_the_thread_win_over_the_files() {
    let shared = json!({"model_reasoning_effort": "low", "model_verbosity": "high"});
    let thread = json!({"model_reasoning_effort": "high", "model_reasoning_summary": "concise"});
    let read = read(&shared, &json!({}), &thread).unwrap();
    assert_eq!(read.effort.as_deref(), Some("high"));
    assert_eq!(read.verbosity.as_deref(), Some("high"));
    assert_eq!(read.summary, Some(ReasoningSummary::Concise));
}

#[test]
fn the_nearest_project_that_is_named_says_whether_it_is_trusted() {
    let shared = json!({"projects": {
        "/home/me": {"trust_level": "trusted"},
        "/home/me/project": {"trust_level": "untrusted"},
    }});
    let read = read(&shared, &json!({}), &json!({})).unwrap();
    assert_eq!(read.documents.trust, Trust::Untrusted);
}

#[test]
fn a_bad_value_is_named_by_its_key() {
    for (shared, native, complaint) in [
        (
            json!({"model_context_window": "big"}),
            json!({}),
            "model_context_window: must be a whole number, 1 or more",
        ),
        (
            json!({"model_context_window": 0}),
            json!({}),
            "model_context_window: must be a whole number, 1 or more",
        ),
        (
            json!({"model_reasoning_summary": "some"}),
            json!({}),
            "model_reasoning_summary: must be one of auto, concise, detailed, none",
        ),
        (
            json!({"project_root_markers": [1]}),
            json!({}),
            "project_root_markers: must be a list of strings",
        ),
        (
            json!({"projects": 1}),
            json!({}),
            "projects: must be a table",
        ),
        (
            json!({"projects": {"/home/me": {"trust_level": "maybe"}}}),
            json!({}),
            "projects.\"/home/me\".trust_level: must be `trusted` or `untrusted`",
        ),
        (
            json!({}),
            json!({"max_rounds": -1}),
            "native.max_rounds: must be a whole number, 1 or more",
        ),
        (
            json!({}),
            json!({"login_shell": "yes"}),
            "native.login_shell: must be true or false",
        ),
        (
            json!({}),
            json!({"shell": "fish"}),
            "native.shell: must be bash, zsh or sh, or a path of one",
        ),
        (
            json!({}),
            json!({"providers": {"x": {"image_input": 1}}}),
            "native.providers.x.image_input: must be true or false",
        ),
    ] {
        assert_eq!(read(&shared, &native, &json!({})).unwrap_err(), complaint);
    }
}

#[test]
fn an_unknown_shell_of_the_user_is_passed_over() {
    let config = config(&json!({}), &json!({}));
    let read = TurnConfig::read(&config, &settings(&json!({})), Some("/usr/bin/fish"));
    assert_eq!(read.unwrap().tools.shell, "sh");
}
