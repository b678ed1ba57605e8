//! What the terminal UI asks before it starts is answered, over the wire.

use serde_json::{Value, json};

use crate::host::{Host, result};

#[tokio::test]
async fn everything_the_terminal_ui_needs_is_answered() {
    let host = Host::new().await;
    let mut client = host.plain_client().await;
    let cwd = host.cwd().display().to_string();
    let empty_page = json!({"data": [], "nextCursor": null});
    for (method, params, wanted) in [
        (
            "account/read",
            json!({"refreshToken": false}),
            json!({"account": {"type": "apiKey"}, "requiresOpenaiAuth": false,
                "workspaceRouting": null}),
        ),
        (
            "account/rateLimits/read",
            json!({}),
            json!({"rateLimits": {}, "rateLimitsByLimitId": null}),
        ),
        (
            "account/bedrock/checkGovCloudRequirements",
            json!({}),
            json!({"isGovCloud": false, "shouldWarn": false}),
        ),
        (
            "configRequirements/read",
            Value::Null,
            json!({"requirements": null}),
        ),
        (
            "hooks/list",
            json!({"cwds": ["/a", "/b"]}),
            json!({"data": [
                {"cwd": "/a", "hooks": [], "warnings": [], "errors": []},
                {"cwd": "/b", "hooks": [], "warnings": [], "errors": []}]}),
        ),
        (
            "hooks/list",
            json!({}),
            json!({"data": [{"cwd": cwd, "hooks": [], "warnings": [], "errors": []}]}),
        ),
        (
            "skills/list",
            json!({"cwds": ["/a"], "forceReload": true}),
            json!({"data": [{"cwd": "/a", "skills": [], "errors": []}]}),
        ),
        (
            "collaborationMode/list",
            json!({}),
            json!({"data": [
                {"name": "Plan", "mode": "plan", "model": null, "reasoning_effort": "medium"},
                {"name": "Default", "mode": "default", "model": null,
                    "reasoning_effort": null}]}),
        ),
        (
            "plugin/list",
            json!({"cwds": ["/a"], "marketplaceKinds": ["local"]}),
            json!({"marketplaces": [], "marketplaceLoadErrors": [], "featuredPluginIds": []}),
        ),
        (
            "mcpServerStatus/list",
            json!({"detail": "full"}),
            empty_page.clone(),
        ),
        ("experimentalFeature/list", json!({}), empty_page),
        (
            "permissionProfile/list",
            json!({"limit": 2}),
            json!({"nextCursor": "2", "data": [
                {"id": ":read-only", "description": null, "allowed": true},
                {"id": ":workspace", "description": null, "allowed": true}]}),
        ),
    ] {
        let answer = client.call(method, params).await.unwrap();
        assert_eq!(result(&answer), wanted, "{method}");
    }
}

#[tokio::test]
async fn models_and_configuration_are_those_in_effect_without_secrets() {
    let host = Host::new().await;
    let mut client = host.plain_client().await;
    let models = json!({"includeHidden": false});
    let models = result(&client.call("model/list", models).await.unwrap());
    assert_eq!(models["nextCursor"], Value::Null);
    assert_eq!(models["data"][0]["model"], "mock-model");
    assert_eq!(models["data"][0]["isDefault"], true);
    let config = json!({"cwd": "/w", "includeLayers": true});
    let config = result(&client.call("config/read", config).await.unwrap());
    assert!(!config.to_string().contains("hunter2"), "{config}");
    assert_eq!(config["config"]["project"], "/w");
    assert_eq!(config["config"]["model_provider"], "mock");
    assert_eq!(config["config"]["web_search"], Value::Null);
}

#[tokio::test]
async fn a_server_says_which_process_it_is_and_whether_a_turn_could_run() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let cwd = host.cwd().display().to_string();
    let answer = client.call("server/status", json!({"cwd": cwd})).await;
    let status = result(&answer.unwrap());
    assert_eq!(status["pid"], std::process::id());
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["key"], "set");
    assert_eq!(status["trouble"], Value::Null);
    let engine = status["engine"].as_str().unwrap();
    let engines = status["engines"].as_array().unwrap();
    assert!(engines.iter().any(|known| known == engine), "{status}");
    assert_eq!(status["engineStatus"]["ok"], true, "{status}");
    assert!(status["startedAtMs"].is_i64(), "{status}");
    // Of a key only names are told.
    assert!(!status.to_string().contains("sk-"), "{status}");
}
