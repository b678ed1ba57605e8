//! Help, and what is said about flags that make no sense.

use insta::assert_snapshot;

use crate::{shown, turnlane};

#[tokio::test]
async fn help_teaches() {
    let shown = shown(turnlane(&["app-server", "--help"])).await;
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_snapshot!(lines.join("\n"), @"
    exit 0
    -- stdout
    Serve threads and turns to clients such as the Codex terminal UI and the official SDKs

    It speaks Codex's app-server protocol and runs turns with its own agent loop, against any provider
    of the Responses API. What was answered is on disk: turns go on when clients leave, and a restart
    finds everything that was accepted.

    Usage: turnlane app-server [OPTIONS]
           turnlane app-server <COMMAND>

    Commands:
      generate-json-schema  Write the JSON Schema of everything we serve, for those who generate clients
      help                  Print this message or the help of the given subcommand(s)

    Options:
          --listen <URL>
              Where to listen; may be repeated: `stdio://`, `ws://IP:PORT` (port 0 picks one),
              `unix://[PATH]` (default: run/app-server.sock in our folder), `off`

          --stdio
              The same as `--listen stdio://`, which is also the default

          --script <FILE>
              Run turns by this script (YAML or JSON) instead of a model: for demos and tests

      -c, --config <KEY=VALUE>
              One setting for this run, as in config.toml: `-c model=m-1`, `-c server.shutdown_grace=5s`

      -h, --help
              Print help (see a summary with '-h')

    Authentication (websockets):
          --ws-auth <MODE>
              What a client must show; `none` is for loopback only

              [possible values: capability-token, signed-bearer-token, none]

          --ws-token-file <FILE>
              A file with the capability token in one line, readable by its owner only

          --ws-token-sha256 <HEX>
              The SHA-256 of the capability token, in hex

          --ws-shared-secret-file <FILE>
              A file with the secret that signs bearer tokens (HS256)

          --ws-issuer <TEXT>
              The issuer a signed token must name

          --ws-audience <TEXT>
              The audience a signed token must name

          --ws-max-clock-skew-seconds <N>
              How far the clock of a token's maker may be off

    Clients of a websocket show a token as `Authorization: Bearer TOKEN`; unless told otherwise it is in
    $TURNLANE_HOME/token, which is made on first use. A model's key comes from the environment
    (OPENAI_API_KEY, or what the provider's `env_key` names) or from $TURNLANE_HOME/keys.env.
    Settings come from $CODEX_HOME/config.toml, then $TURNLANE_HOME/config.toml, then -c.

    Examples:
      turnlane app-server                                 one client on standard input and output
      turnlane app-server --listen ws://127.0.0.1:7071    many clients, with the token above
      turnlane app-server --listen unix:// --listen ws://127.0.0.1:0
      codex --remote ws://127.0.0.1:7071                  the Codex terminal UI as a client
    -- stderr
    ");
}

#[tokio::test]
async fn a_place_that_cannot_be_listened_on_is_named() {
    let home = turnlane_testkit::TempHome::new().unwrap();
    let mut said = Vec::new();
    for arguments in [
        &["--listen", "tcp://127.0.0.1:1"][..],
        &["--listen", ""],
        &["--listen", "ws://localhost:1"],
        &["--listen", "ws://127.0.0.1"],
        &["--listen", "ws://127.0.0.1:99999"],
        &["--listen", "wss://127.0.0.1:1"],
        &["--listen", "stdio", "--stdio"],
        &["--listen", "unix:///dev/null/socket"],
        &["--listen"],
        &["-c", "model"],
        &["-c", "model_context_window=big"],
        &["--script", "/no/such/script"],
    ] {
        let all = [&["app-server"][..], arguments].concat();
        let output = crate::run(turnlane(&all).envs(home.env())).await;
        let first = output.stderr_tail.lines().next().unwrap_or_default();
        let code = output.status.code().unwrap();
        said.push(format!("{}: {code} {first}", arguments.join(" ")));
    }
    assert_snapshot!(said.join("\n"), @"
    --listen tcp://127.0.0.1:1: 1 error: unsupported --listen URL `tcp://127.0.0.1:1`; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen : 1 error: unsupported --listen URL ``; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen ws://localhost:1: 1 error: invalid websocket --listen URL `ws://localhost:1`; expected `ws://IP:PORT`
    --listen ws://127.0.0.1: 1 error: invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`
    --listen ws://127.0.0.1:99999: 1 error: invalid websocket --listen URL `ws://127.0.0.1:99999`; expected `ws://IP:PORT`
    --listen wss://127.0.0.1:1: 1 error: unsupported --listen URL `wss://127.0.0.1:1`; expected `stdio://`, `ws://IP:PORT`, `unix://[PATH]` or `off`
    --listen stdio --stdio: 1 error: standard input and output can be listened on once
    --listen unix:///dev/null/socket: 1 error: cannot listen on /dev/null/socket: File exists (os error 17)
    --listen: 2 error: a value is required for '--listen <URL>' but none was supplied
    -c model: 1 error: -c wants key=value, not `model`
    -c model_context_window=big: 1 error: -c model_context_window=big: model_context_window: expected a whole number, found a string
    --script /no/such/script: 1 error: cannot read /no/such/script: No such file or directory (os error 2)
    ");
}
