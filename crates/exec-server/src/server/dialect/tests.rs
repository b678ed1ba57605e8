//! Every row of the tables about the handshake, without a connection.

use super::*;

const V0_CLIENT: &str = r#"{"clientName":"tool"}"#;
const CODEX: &str = r#"{"clientName":"codex","resumeSessionId":null}"#;

fn chosen(choice: DialectChoice, params: &str) -> Result<Dialect, ErrorObject> {
    Handshake::new(choice).chosen(&serde_json::from_str(params).unwrap())
}

fn refusal(handshake: &Handshake, name: &str) -> (i64, String) {
    let error = match handshake.route(name) {
        Ok(route) => route.too_early.expect("must be refused"),
        Err(error) => error,
    };
    (error.code, error.message)
}

fn ready(dialect: Dialect) -> Handshake {
    let mut handshake = Handshake::new(DialectChoice::Auto);
    handshake.greeted(dialect);
    handshake.notified(INITIALIZED).unwrap();
    handshake
}

#[test]
fn the_params_of_initialize_decide() {
    use DialectChoice::{Auto, Process, V0};
    let v0 = r#"{"clientName":"a","protocolVersion":"exec-server.v0","resumeSessionId":"x"}"#;
    let v1 = r#"{"clientName":"a","protocolVersion":"process.v1"}"#;
    let resuming = r#"{"clientName":"a","resumeSessionId":"s"}"#;
    for (choice, params, dialect) in [
        (Auto, V0_CLIENT, Dialect::V0),
        (Auto, CODEX, Dialect::ProcessV1),
        (Auto, resuming, Dialect::ProcessV1),
        (Auto, v0, Dialect::V0),
        (Auto, v1, Dialect::ProcessV1),
        (V0, CODEX, Dialect::V0),
        (V0, v1, Dialect::ProcessV1),
        (Process, V0_CLIENT, Dialect::ProcessV1),
        (Process, v0, Dialect::V0),
    ] {
        assert_eq!(chosen(choice, params), Ok(dialect), "{choice:?} {params}");
    }
    let other = chosen(Auto, r#"{"clientName":"a","protocolVersion":"v9"}"#).unwrap_err();
    assert_eq!(
        (other.code, other.message.as_str()),
        (-32602, "unsupported protocolVersion v9")
    );
}

#[test]
fn before_initialize_each_dialects_methods_are_refused_in_its_own_words() {
    let fresh = Handshake::new(DialectChoice::Auto);
    let must = |family: &str| {
        (
            -32600,
            format!("client must call initialize before using {family} methods"),
        )
    };
    assert_eq!(refusal(&fresh, "command/exec"), must("exec"));
    assert_eq!(refusal(&fresh, "process/start"), must("exec"));
    assert_eq!(
        refusal(&fresh, "environment/info"),
        must("environment info")
    );
    assert_eq!(
        refusal(&fresh, "environment/status"),
        must("environment status")
    );
    assert_eq!(
        refusal(&fresh, "capabilityRoots/discoverV1"),
        must("capability discovery")
    );
    assert_eq!(
        refusal(&fresh, "foo"),
        (-32600, "unknown method: foo".to_owned())
    );
    let process = Handshake::new(DialectChoice::Process);
    assert_eq!(
        refusal(&process, "command/exec"),
        (
            -32601,
            "exec-server stub does not implement `command/exec` yet".to_owned()
        )
    );
}

#[test]
fn between_initialize_and_initialized_nothing_runs() {
    let mut handshake = Handshake::new(DialectChoice::Auto);
    handshake.greeted(Dialect::V0);
    assert_eq!(
        refusal(&handshake, "command/exec"),
        (
            -32600,
            "client must send initialized before using exec methods".to_owned()
        )
    );
    assert_eq!(
        refusal(&handshake, "initialize"),
        (
            -32600,
            "initialize may only be sent once per connection".to_owned()
        )
    );
}

#[test]
fn after_the_handshake_the_other_dialects_methods_are_unknown() {
    assert_eq!(
        refusal(&ready(Dialect::V0), "process/start"),
        (-32600, "unknown method: process/start".to_owned())
    );
    assert_eq!(
        refusal(&ready(Dialect::ProcessV1), "command/exec"),
        (
            -32601,
            "exec-server stub does not implement `command/exec` yet".to_owned()
        )
    );
    let run = ready(Dialect::ProcessV1).route("process/resize").unwrap();
    assert_eq!(
        (run.method, run.too_early),
        (Method::V1(V1Method::Resize), None)
    );
}

#[test]
fn initialized_may_repeat_but_not_come_first() {
    let mut handshake = Handshake::new(DialectChoice::Auto);
    assert_eq!(
        handshake.notified("initialized").unwrap_err(),
        "received `initialized` notification before `initialize`"
    );
    let mut handshake = ready(Dialect::V0);
    assert_eq!(handshake.notified("initialized"), Ok(()));
    assert_eq!(
        handshake.notified("foo/bar").unwrap_err(),
        "unexpected notification method: foo/bar"
    );
}
