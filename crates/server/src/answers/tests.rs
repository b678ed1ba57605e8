//! The answers as the terminal UI decodes them, and what must not be in them.

use serde_json::{Value, json};

use super::*;

fn facts() -> Facts {
    Facts {
        model: "m".into(),
        provider: "p".into(),
        ..Facts::default()
    }
}

fn written(answer: impl serde::Serialize) -> Value {
    serde_json::to_value(answer).unwrap()
}

#[test]
fn an_account_is_a_key_or_nothing() {
    assert_eq!(
        written(account(&facts())),
        json!({"account": null, "requiresOpenaiAuth": false, "workspaceRouting": null})
    );
    let with_key = Facts {
        key: Key::Present,
        ..facts()
    };
    assert_eq!(
        written(account(&with_key)),
        json!({"account": {"type": "apiKey"}, "requiresOpenaiAuth": false,
            "workspaceRouting": null})
    );
}

#[test]
fn the_configured_model_is_first_and_the_default() {
    let facts = Facts {
        more_models: vec!["m".into(), "n".into()],
        effort: Some("xhigh".into()),
        ..facts()
    };
    let models = written(models(&facts));
    assert_eq!(models.as_array().unwrap().len(), 2);
    assert_eq!(
        models[0],
        json!({"id": "m", "model": "m", "displayName": "m", "description": "Served by p",
            "hidden": false, "isDefault": true, "supportedReasoningEfforts": [
                {"reasoningEffort": "low", "description": "Answers quickly"},
                {"reasoningEffort": "medium", "description": "Balances speed and depth"},
                {"reasoningEffort": "high", "description": "Thinks longer about hard problems"},
                {"reasoningEffort": "xhigh", "description": "As configured"}],
            "defaultReasoningEffort": "xhigh", "inputModalities": ["text", "image"],
            "supportsPersonality": false, "serviceTiers": [], "additionalSpeedTiers": [],
            "upgrade": null, "upgradeInfo": null, "availabilityNux": null,
            "defaultServiceTier": null, "modelSpecialty": null, "availableAccessPrograms": null,
            "multiAgentVersion": null})
    );
    assert_eq!(
        (&models[1]["id"], &models[1]["isDefault"]),
        (&json!("n"), &json!(false))
    );
}

#[test]
fn efforts_that_are_known_are_shown_as_they_are() {
    let facts = Facts {
        efforts: vec![("medium".into(), "usual".into())],
        ..facts()
    };
    assert_eq!(
        written(models(&facts))[0]["supportedReasoningEfforts"],
        json!([{"reasoningEffort": "medium", "description": "usual"}])
    );
}

#[test]
fn a_configuration_has_all_shared_keys_and_no_secret() {
    let config_of = |config: Value| {
        let config = config.as_object().unwrap().clone();
        let answer = config_read_answer(Facts { config, ..facts() });
        (answer["config"].clone(), answer)
    };
    let (config, answer) = config_of(json!({"sandbox_mode": "read-only",
        "approval_policy": "never", "tool_output_token_limit": 5,
        "model_providers": {"p": {"base_url": "https://me:hunter2@host:1/v1/x?key=hunter2#f",
            "env_key": "P_KEY", "experimental_bearer_token": "hunter2",
            "http_headers": {"X-Custom": "hunter2"}, "query_params": {"v": "hunter2"},
            "env_http_headers": {"X": "X_VAR"}, "apiKey": "hunter2", "name": "P"}},
        "mcp_servers": {"s": {"command": "c", "args": ["a"], "env": {"A": "hunter2"},
            "bearer_token_env_var": "TOKEN_VAR", "url": "http://host/"}},
        "shell_environment_policy": {"set": {"A": "hunter2"}, "exclude": ["B"]},
        "cli_auth_credentials_store": "file", "tui": {"keymap": {"copy": "c"}},
        "passwords": "x", "server": {"AuthToken": ["hunter2"], "password": ""}}));
    assert!(!config.to_string().contains("hunter2"), "{config}");
    assert_eq!(
        (&answer["origins"], &answer["layers"]),
        (&json!({}), &Value::Null)
    );
    let provider = &config["model_providers"]["p"];
    assert_eq!(provider["base_url"], "https://host:1/v1/x");
    assert_eq!(provider["env_key"], "P_KEY");
    assert_eq!(provider["env_http_headers"], json!({"X": "X_VAR"}));
    assert_eq!(provider["experimental_bearer_token"], redact::REDACTED);
    let server = &config["mcp_servers"]["s"];
    assert_eq!(server["bearer_token_env_var"], "TOKEN_VAR");
    assert_eq!(server["url"], "http://host/");
    assert_eq!(config["tui"]["keymap"]["copy"], "c");
    assert_eq!(config["cli_auth_credentials_store"], "file");
    assert_eq!(config["tool_output_token_limit"], 5);
    assert_eq!(config["server"]["password"], "");
    assert_eq!(config["model"], "m");
    assert_eq!(config["model_provider"], "p");
    for key in SHARED_KEYS {
        assert!(config.get(key).is_some(), "{key}");
    }
    assert_eq!(config_of(json!({"model": "other"})).0["model"], "other");
}

fn config_read_answer(facts: Facts) -> Value {
    written(config(facts))
}

#[test]
fn the_modes_are_those_of_codex() {
    assert_eq!(
        written(collaboration_modes()),
        json!({"data": [
            {"name": "Plan", "mode": "plan", "model": null, "reasoning_effort": "medium"},
            {"name": "Default", "mode": "default", "model": null, "reasoning_effort": null}]})
    );
}

#[test]
fn pages_show_every_row_once() {
    let rows: Vec<u32> = (0..7).collect();
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let (data, next) = page(rows.clone(), cursor.as_deref(), Some(3)).unwrap();
        seen.extend(data);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, rows);
    assert_eq!(page(rows.clone(), None, Some(0)).unwrap().0, [0]);
    for bad in ["rubbish", "-1", "8"] {
        let error = page(rows.clone(), Some(bad), None).unwrap_err();
        assert_eq!(error.message, format!("invalid cursor: {bad}"));
    }
}
