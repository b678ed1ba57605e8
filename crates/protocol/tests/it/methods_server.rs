//! Params and answers of the methods about the server itself and about processes.

use serde_json::{Value, json};
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::method::config_read::SHARED_KEYS;
use turnlane_protocol::method::{
    AccountReadAnswer, AccountReadParams, CatalogListParams, CollaborationModeListAnswer,
    CommandExecAnswer, CommandExecParams, CommandExecResizeParams, CommandExecTerminateParams,
    CommandExecWriteParams, ConfigReadAnswer, ConfigReadParams, ConfigRequirementsReadAnswer,
    ExperimentalFeatureListAnswer, GovCloudAnswer, HooksListAnswer, HooksListParams,
    McpServerStatusListAnswer, ModelListAnswer, ModelListParams, PermissionProfileListAnswer,
    PluginListAnswer, PluginListParams, ProcessKillParams, ProcessResizePtyParams,
    ProcessSpawnParams, ProcessWriteStdinParams, RateLimitsReadAnswer, ServerStatusAnswer,
    ServerStatusParams, SkillsListAnswer, SkillsListParams,
};

use crate::example::{reads_as, whole};

fn model() -> Value {
    json!({"id": "m", "model": "m", "displayName": "M", "description": "d", "hidden": false,
        "isDefault": true, "defaultReasoningEffort": "medium",
        "supportedReasoningEfforts": [{"reasoningEffort": "low", "description": "l"}],
        "inputModalities": ["text", "image", "audio", "smell"], "supportsPersonality": false,
        "serviceTiers": [], "additionalSpeedTiers": [], "upgrade": null, "upgradeInfo": null,
        "availabilityNux": {"message": "new"}, "defaultServiceTier": null,
        "modelSpecialty": null, "availableAccessPrograms": null, "multiAgentVersion": null})
}

#[test]
fn accounts_come_back_whole() {
    whole::<AccountReadParams>(json!({}));
    whole::<AccountReadParams>(json!({"refreshToken": true}));
    whole::<AccountReadAnswer>(
        json!({"account": null, "requiresOpenaiAuth": false, "workspaceRouting": null}),
    );
    whole::<AccountReadAnswer>(
        json!({"account": {"type": "apiKey"}, "requiresOpenaiAuth": false,
        "workspaceRouting": null}),
    );
    whole::<AccountReadAnswer>(json!({"account": {"type": "gcp", "later": 1},
        "requiresOpenaiAuth": true, "workspaceRouting": {"backendOrigin": "o"}}));
    whole::<RateLimitsReadAnswer>(
        json!({"rateLimits": {"primary": null}, "rateLimitsByLimitId": null}),
    );
    whole::<GovCloudAnswer>(json!({"isGovCloud": false, "shouldWarn": false}));
}

#[test]
fn the_status_of_a_server_comes_back_whole() {
    whole::<ServerStatusParams>(json!({}));
    whole::<ServerStatusParams>(json!({"cwd": "/w"}));
    for key in ["set", "missing", "notNeeded"] {
        whole::<ServerStatusAnswer>(json!({
            "version": "0.1.0", "pid": 7, "startedAtMs": 1, "trouble": null, "engine": "native",
            "engines": ["native"], "engineStatus": {"ok": false, "reason": "no key"},
            "provider": "openai", "model": "m", "key": key, "keyVariables": ["K"],
        }));
    }
}

#[test]
fn models_come_back_whole() {
    whole::<ModelListParams>(json!({}));
    whole::<ModelListParams>(json!({"cursor": "c", "limit": 5, "includeHidden": false}));
    whole::<ModelListAnswer>(json!({"data": [model()], "nextCursor": null}));
}

#[test]
fn configuration_comes_back_whole() {
    whole::<ConfigReadParams>(json!({}));
    whole::<ConfigReadParams>(json!({"cwd": "/w", "includeLayers": true}));
    whole::<ConfigReadAnswer>(
        json!({"config": {"model": "m", "later": {"a": 1}}, "origins": {}, "layers": null}),
    );
    whole::<ConfigRequirementsReadAnswer>(json!({"requirements": null}));
    assert!(SHARED_KEYS.is_sorted());
}

#[test]
fn lists_come_back_whole() {
    whole::<HooksListParams>(json!({}));
    whole::<HooksListParams>(json!({"cwds": ["/w"], "threadId": "t"}));
    whole::<HooksListAnswer>(
        json!({"data": [{"cwd": "/w", "hooks": [{"handlerType": "agent"}],
        "warnings": ["w"], "errors": [{"path": "/p", "message": "m"}]}]}),
    );
    whole::<SkillsListParams>(json!({"cwds": ["/w"], "forceReload": true}));
    whole::<SkillsListAnswer>(
        json!({"data": [{"cwd": "/w", "skills": [{"name": "n"}], "errors": []}]}),
    );
    whole::<CollaborationModeListAnswer>(json!({"data": [
        {"name": "Plan", "mode": "plan", "model": null, "reasoning_effort": "medium"}]}));
    whole::<PluginListParams>(json!({"cwds": ["/w"]}));
    whole::<PluginListAnswer>(json!({"marketplaces": [{"name": "n", "plugins": []}],
        "marketplaceLoadErrors": [], "featuredPluginIds": ["p"]}));
    whole::<CatalogListParams>(json!({"cursor": "c", "limit": 5, "threadId": "t", "cwd": "/w"}));
    whole::<McpServerStatusListAnswer>(json!({"data": [{"name": "n"}], "nextCursor": null}));
    whole::<PermissionProfileListAnswer>(json!({"nextCursor": null, "data": [
        {"id": ":workspace", "description": null, "allowed": true}]}));
    whole::<ExperimentalFeatureListAnswer>(json!({"data": [{"name": "n"}], "nextCursor": "c"}));
}

#[test]
fn command_exec_comes_back_whole() {
    whole::<CommandExecParams>(json!({"command": []}));
    whole::<CommandExecParams>(json!({"command": ["ls"], "processId": "p", "cwd": "/w",
        "env": {"A": "b", "C": null}, "timeoutMs": 5, "disableTimeout": true,
        "outputBytesCap": 5, "disableOutputCap": true,
        "sandboxPolicy": {"type": "dangerFullAccess"}, "permissionProfile": ":workspace",
        "tty": true, "size": {"rows": 1, "cols": 2}, "streamStdin": true,
        "streamStdoutStderr": true}));
    reads_as::<CommandExecParams>(
        json!({"command": ["ls"], "env": null, "sandbox": "danger-full-access"}),
        &json!({"command": ["ls"], "sandbox": {"type": "dangerFullAccess"}}),
    );
    whole::<CommandExecAnswer>(json!({"exitCode": -1, "stdout": "o", "stderr": "e"}));
    whole::<CommandExecWriteParams>(json!({"processId": "p"}));
    whole::<CommandExecWriteParams>(
        json!({"processId": "p", "deltaBase64": "no base64", "closeStdin": true}),
    );
    whole::<CommandExecResizeParams>(json!({"processId": "p", "size": {"rows": 0, "cols": 9}}));
    whole::<CommandExecTerminateParams>(json!({"processId": "p"}));
}

#[test]
fn processes_come_back_whole_and_tell_null_from_absence() {
    let least = json!({"processHandle": "h", "command": ["ls"], "cwd": "/w"});
    let read = whole::<ProcessSpawnParams>(least);
    assert_eq!((read.output_bytes_cap, read.timeout_ms), (None, None));
    let read = whole::<ProcessSpawnParams>(json!({"processHandle": "h", "command": ["ls"],
        "cwd": "/w", "env": {"A": null}, "tty": true, "size": {"rows": 1, "cols": 2},
        "streamStdin": true, "streamStdoutStderr": true, "outputBytesCap": null,
        "timeoutMs": null}));
    assert_eq!(
        (read.output_bytes_cap, read.timeout_ms),
        (Some(None), Some(None))
    );
    whole::<ProcessSpawnParams>(json!({"processHandle": "h", "command": ["ls"], "cwd": "/w",
        "outputBytesCap": 5, "timeoutMs": -5}));
    whole::<ProcessWriteStdinParams>(
        json!({"processHandle": "h", "deltaBase64": "AA==", "closeStdin": true}),
    );
    whole::<ProcessResizePtyParams>(json!({"processHandle": "h", "size": {"rows": 1, "cols": 1}}));
    whole::<ProcessKillParams>(json!({"processHandle": "h"}));
}

#[test]
fn what_may_hold_secrets_is_not_shown_in_logs() {
    let spawn: ProcessSpawnParams = serde_json::from_value(json!({"processHandle": "h",
        "command": ["ls", "hunter2"], "cwd": "/w", "env": {"A": "hunter2"}}))
    .unwrap();
    let exec: CommandExecParams =
        serde_json::from_value(json!({"command": ["ls", "hunter2"], "env": {"A": "hunter2"}}))
            .unwrap();
    let write: CommandExecWriteParams =
        serde_json::from_value(json!({"processId": "p", "deltaBase64": "hunter2"})).unwrap();
    let answer: CommandExecAnswer =
        serde_json::from_value(json!({"exitCode": 0, "stdout": "hunter2", "stderr": "hunter2"}))
            .unwrap();
    let shown = format!("{spawn:?} {exec:?} {write:?} {answer:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("ls"), "{shown}");
}

#[test]
fn text_is_decoded_as_base64_or_refused_with_its_place() {
    assert_eq!(Blob::decode("aGkK").unwrap(), Blob::from(&b"hi\n"[..]));
    assert_eq!(
        Blob::decode("!!").unwrap_err().to_string(),
        "Invalid symbol 33, offset 0."
    );
}
