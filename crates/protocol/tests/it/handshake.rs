//! `initialize` in both directions.

use serde_json::{Value, json};
use turnlane_protocol::handshake::{
    COMPAT_VERSION, Capabilities, ClientInfo, InitializeParams, InitializeResult, ServerInfo,
    TURNLANE_PROTOCOL, TurnlaneInfo, user_agent,
};

use crate::example::{reads_as, refusal, whole};

#[test]
fn params_come_back_whole() {
    whole::<InitializeParams>(json!({
        "clientInfo": {"name": "my-tool", "title": null, "version": "1.2.0"},
        "capabilities": {"experimentalApi": true,
            "optOutNotificationMethods": ["item/agentMessage/delta"],
            "turnlane": {"version": 1, "events": 1}}}));
    whole::<InitializeParams>(json!({
        "clientInfo": {"name": "", "title": "T", "version": ""},
        "capabilities": {"experimentalApi": false, "requestAttestation": true,
            "extensions": {"a": 1}, "explicitGatewayOauth": true,
            "mcpServerOpenaiFormElicitation": false, "turnlane": {"version": 1}}}));
    reads_as::<InitializeParams>(
        json!({"clientInfo": {"name": "n", "version": "v"}, "later": true}),
        &json!({"clientInfo": {"name": "n", "title": null, "version": "v"}}),
    );
    reads_as::<InitializeParams>(
        json!({"clientInfo": {"name": "n", "version": "v"}, "capabilities": null}),
        &json!({"clientInfo": {"name": "n", "title": null, "version": "v"}}),
    );
}

#[test]
fn name_and_version_are_required_strings() {
    assert_eq!(
        refusal::<InitializeParams>(json!({"clientInfo": {"name": "n"}})),
        "Invalid request: missing field `version`"
    );
    assert_eq!(
        refusal::<InitializeParams>(json!({"clientInfo": {"name": 5, "version": "v"}})),
        "Invalid request: invalid type: integer `5`, expected a string"
    );
    assert_eq!(
        refusal::<InitializeParams>(json!({})),
        "Invalid request: missing field `clientInfo`"
    );
}

#[test]
fn our_events_are_implied_by_the_version_and_can_be_switched_off() {
    let capabilities =
        |json: Value| serde_json::from_value::<Capabilities>(json!({"turnlane": json})).unwrap();
    for (turnlane, knows, wants) in [
        (json!(null), false, false),
        (json!({}), false, false),
        (json!({"version": 0}), false, false),
        (json!({"version": 1}), true, true),
        (json!({"version": 1, "events": null}), true, true),
        (json!({"version": 1, "events": 0}), true, false),
        (json!({"version": 1, "events": 1}), true, true),
        (json!({"events": 1}), false, true),
        (json!({"version": 2}), true, true),
    ] {
        let read = capabilities(turnlane.clone());
        assert_eq!(
            (read.knows_turnlane(), read.wants_turnlane_events()),
            (knows, wants),
            "{turnlane}"
        );
    }
}

#[test]
fn opting_out_goes_by_exact_name() {
    let capabilities: Capabilities =
        serde_json::from_value(json!({"optOutNotificationMethods": ["turn/started"]})).unwrap();
    assert!(capabilities.opts_out_of("turn/started"));
    assert!(!capabilities.opts_out_of("turn/start"));
    assert!(!Capabilities::default().opts_out_of("turn/started"));
}

#[test]
fn our_answer_has_the_compatibility_version_where_clients_look() {
    let client = ClientInfo {
        name: "my-tool".into(),
        title: None,
        version: "1.2.0".into(),
    };
    let answer = InitializeResult {
        user_agent: user_agent("Linux 6.1.0", "x86_64", &client),
        server_info: Some(ServerInfo::turnlane()),
        codex_home: "/home/a/.turnlane".into(),
        platform_family: "unix".into(),
        platform_os: "linux".into(),
        turnlane: Some(TurnlaneInfo {
            version: "0.1.0".into(),
            protocol: TURNLANE_PROTOCOL,
            worker_id: "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
            features: vec!["queue".into()],
        }),
    };
    let json = json!({
        "userAgent": "turnlane/0.166.0 (Linux 6.1.0; x86_64) unknown (my-tool; 1.2.0)",
        "serverInfo": {"name": "turnlane", "version": COMPAT_VERSION},
        "codexHome": "/home/a/.turnlane", "platformFamily": "unix", "platformOs": "linux",
        "turnlane": {"version": "0.1.0", "protocol": 1,
            "workerId": "0198c0de-0000-7000-8000-000000000000", "features": ["queue"]}});
    assert_eq!(whole::<InitializeResult>(json), answer);
}

#[test]
fn the_answer_of_codex_is_read_too() {
    let answer = whole::<InitializeResult>(json!({"userAgent": "lab/0.166.0", "codexHome": "/h",
        "platformFamily": "unix", "platformOs": "linux"}));
    assert_eq!((answer.server_info, answer.turnlane), (None, None));
    reads_as::<InitializeResult>(
        json!({"userAgent": "codex/0.151.0"}),
        &json!({"userAgent": "codex/0.151.0", "codexHome": "", "platformFamily": "",
            "platformOs": ""}),
    );
}
