//! What the client says, and what it makes of answers in every order.

use std::time::Duration;

use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use turnlane_exec_server::client::{
    ClientError, ClientOptions, Event, ExecClient, RemoteProcess, StartSpec,
};
use turnlane_process::{End, Signal, StreamName, Target, TerminalSize, Until};
use turnlane_testkit::wait::{DEADLINE, within};

use super::fake::{Fake, Plays, connected, connecting, options};

fn sh() -> StartSpec {
    StartSpec::new(["sh"], "/w").with_stdin()
}

async fn started(client: &ExecClient, fake: &mut Fake<tokio::io::DuplexStream>) -> RemoteProcess {
    let (process, _) = tokio::join!(client.start(sh()), fake.started());
    process.unwrap()
}

#[tokio::test]
async fn the_handshake_says_that_nothing_may_outlive_the_connection() {
    let (mut fake, connecting) = connecting(options(Plays::Ours));
    let (client, params) = tokio::join!(connecting, fake.handshake(Plays::Ours));
    assert_eq!(
        params,
        json!({"clientName": "a test", "resumeSessionId": null, "protocolVersion": "process.v1",
            "detachedTtlMs": 0})
    );
    assert_eq!(client.unwrap().session_id(), Some("s-1"));

    let mut resuming = options(Plays::Ours);
    resuming.resume = true;
    let (mut fake, connecting) = self::connecting(resuming);
    let (client, params) = tokio::join!(connecting, fake.handshake(Plays::Ours));
    assert_eq!(params.get("detachedTtlMs"), None);
    drop(client);

    let (mut fake, connecting) = self::connecting(options(Plays::V0));
    let (client, params) = tokio::join!(connecting, fake.handshake(Plays::V0));
    assert_eq!(
        params,
        json!({"clientName": "a test", "protocolVersion": "exec-server.v0"})
    );
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let (_fake, connecting) = connecting(options(Plays::Ours));
    let error = connecting.await.unwrap_err();
    assert!(
        matches!(error, ClientError::InitializeTimeout { after } if after.as_secs() == 10),
        "{error}"
    );
}

#[tokio::test]
async fn a_silent_port_and_a_silent_socket_run_into_their_own_limits() {
    let short = || ClientOptions {
        connect_timeout: Duration::from_millis(50),
        initialize_timeout: Duration::from_millis(60),
        ..ClientOptions::new("a test")
    };
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", silent.local_addr().unwrap());
    let error = ExecClient::connect_websocket(&url, short()).await;
    match error.unwrap_err() {
        ClientError::ConnectTimeout { url: told, after } => {
            assert_eq!((told, after.as_millis()), (url, 50));
        }
        other => panic!("{other}"),
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _silent = UnixListener::bind(&path).unwrap();
    let error = ExecClient::connect_unix(&path, short()).await.unwrap_err();
    assert!(
        matches!(error, ClientError::InitializeTimeout { after } if after.as_millis() == 60),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_at_the_address_is_no_timeout() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", free.local_addr().unwrap());
    drop(free);
    let error = ExecClient::connect_websocket(&url, ClientOptions::new("a test")).await;
    assert!(matches!(error, Err(ClientError::Connect { .. })));
}

#[tokio::test]
async fn a_refused_handshake_says_why() {
    let (mut fake, connecting) = connecting(options(Plays::Ours));
    let refusing = async {
        let asked = fake.asked("initialize").await;
        fake.refuse(&asked, -32602, "unsupported protocolVersion process.v1")
            .await;
    };
    let (error, ()) = tokio::join!(connecting, refusing);
    assert!(matches!(error, Err(ClientError::Rpc { code: -32602, .. })));
}

#[tokio::test]
async fn output_told_before_the_answer_to_start_is_not_lost() {
    let (client, mut fake) = connected(Plays::Codex).await;
    let serving = async {
        let asked = fake.asked("process/start").await;
        let id = asked.params["processId"].as_str().unwrap().to_owned();
        fake.output(&id, 1, b"early").await;
        fake.exited(&id, 2, 0).await;
        fake.closed(&id, 3).await;
        fake.answer(&asked, json!({"processId": id, "sandboxType": "none"}))
            .await;
    };
    let (process, ()) = tokio::join!(client.start(sh()), serving);
    let process = process.unwrap();
    let mut output = process.output().unwrap();
    match output.next().await.unwrap() {
        Some(Event::Output { bytes, seq: 1, .. }) => assert_eq!(bytes, "early"),
        other => panic!("{other:?}"),
    }
    let exit = process.wait(Until::Closed, None).await.unwrap().unwrap();
    assert_eq!(exit.code, 0);
    // Built here: Codex's server has no snapshots.
    assert_eq!(process.snapshot().await.unwrap().stdout.text(), "early");
}

#[tokio::test]
async fn events_in_any_order_and_twice_are_told_in_order_and_once() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let mut events = client.events();
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    fake.closed(&id, 5).await;
    fake.output(&id, 2, b"b").await;
    fake.exited(&id, 4, 3).await;
    fake.output(&id, 2, b"b").await;
    fake.output(&id, 1, b"a").await;
    fake.output(&id, 1, b"a").await;
    fake.output(&id, 3, b"c").await;
    let exit = process.wait(Until::Closed, None).await.unwrap().unwrap();
    assert_eq!(exit.code, 3);
    let mut seqs = Vec::new();
    while let Some(event) = events.try_next() {
        match event {
            Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                seqs.push(seq);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn what_is_missing_before_a_close_is_asked_for() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    fake.output(&id, 1, b"a").await;
    fake.exited(&id, 3, 0).await;
    fake.closed(&id, 4).await;
    let asked = fake.asked("process/read").await;
    assert_eq!(asked.params["afterSeq"], 1);
    let chunk = json!({"seq": 2, "stream": "stdout", "chunk": "Yg=="});
    let read = json!({"chunks": [chunk], "nextSeq": 5, "exited": true, "exitCode": 0,
        "closed": true, "failure": null, "sandboxDenied": false});
    fake.answer(&asked, read).await;
    let serving = fake.serve(
        "process/wait",
        json!({"done": true, "exitCode": 0, "signal": null, "reason": "exited", "closed": true,
            "survivors": 0}),
    );
    let (exit, _) = tokio::join!(process.wait(Until::Closed, None), serving);
    assert_eq!(exit.unwrap().unwrap().code, 0);
    let mut output = process.output().unwrap();
    let mut told = Vec::new();
    while let Some(event) = output.next().await.unwrap() {
        told.push(event);
    }
    assert_eq!(told.len(), 4);
    assert!(matches!(told[1], Event::Output { seq: 2, .. }));
}

#[tokio::test]
async fn a_gap_that_never_fills_fails_its_process_and_no_other() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let broken = started(&client, &mut fake).await;
    let whole = started(&client, &mut fake).await;
    for seq in 2..=258 {
        fake.output(broken.id().as_str(), seq, b"x").await;
    }
    let error = broken.wait(Until::Exited, None).await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    let error = broken.output().unwrap().next().await.unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    fake.exited(whole.id().as_str(), 1, 7).await;
    let exit = whole.wait(Until::Exited, None).await.unwrap().unwrap();
    assert_eq!(exit.code, 7);
}

#[tokio::test]
async fn every_pending_call_ends_with_the_transport() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let mut output = process.output().unwrap();
    let mut events = client.events();
    let asking = async {
        tokio::join!(
            client.start(sh()),
            process.write("input"),
            process.close_stdin(),
            process.resize(TerminalSize { rows: 1, cols: 1 }),
            process.signal(Signal::Usr1, Target::All),
            process.end(End::GRACEFUL),
            process.wait(Until::Exited, None),
            process.snapshot(),
            process.communicate("", None),
            client.list(),
            output.next(),
        )
    };
    let leaving = async {
        // start, resize, signal, terminate, snapshot, list, and three that follow input.
        for _ in 0..9 {
            fake.next().await.unwrap();
        }
        drop(fake);
    };
    let asked = within("every call to end", DEADLINE, async {
        tokio::join!(asking, leaving).0
    });
    let (started, written, closed, resized, signalled, ended, waited, seen, ran, listed, read) =
        Box::pin(asked).await.unwrap();
    let errors = [
        started.err(),
        written.err(),
        closed.err(),
        resized.err(),
        signalled.err(),
        ended.err(),
        waited.err(),
        seen.err(),
        ran.err(),
        listed.err(),
        read.err(),
    ];
    for (at, error) in errors.into_iter().enumerate() {
        let closed = matches!(&error, Some(ClientError::Closed { .. }));
        assert!(closed, "call {at}: {error:?}");
    }
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    assert_eq!(events.next().await, None);
    assert!(matches!(
        client.start(sh()).await,
        Err(ClientError::Closed { .. })
    ));
    assert_eq!(client.events().next().await, None);
}

#[tokio::test]
async fn what_codex_lacks_is_not_asked_for() {
    let (client, mut fake) = connected(Plays::Codex).await;
    let process = started(&client, &mut fake).await;
    let mut with_limit = sh();
    with_limit.limits.open_files = Some(10);
    let mut with_timeout = sh();
    with_timeout.timeout = Some(Duration::from_secs(1));
    let sized = sh().on_terminal(TerminalSize { rows: 2, cols: 3 });
    let size = TerminalSize::default();
    let refused = [
        client.start(with_limit).await.err(),
        client.start(with_timeout).await.err(),
        client.start(sized).await.err(),
        client.list().await.err(),
        process.close_stdin().await.err(),
        process.resize(size).await.err(),
        process.signal(Signal::Kill, Target::Group).await.err(),
        process.signal(Signal::Interrupt, Target::All).await.err(),
        process.end(End::GRACEFUL).await.err(),
        process.end_survivors().await.err(),
    ];
    for (at, error) in refused.into_iter().enumerate() {
        let unsupported = matches!(&error, Some(ClientError::Unsupported { .. }));
        assert!(unsupported, "{at}: {error:?}");
    }
    let interrupting = process.signal(Signal::Interrupt, Target::Group);
    let serving = fake.serve("process/signal", json!({}));
    let (delivered, asked) = tokio::join!(interrupting, serving);
    assert!(delivered.unwrap());
    assert_eq!(
        asked.params,
        json!({"processId": process.id().as_str(), "signal": "interrupt"})
    );
}

#[tokio::test]
async fn a_dropped_handle_ends_its_process_and_one_in_the_background_does_not() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let first = started(&client, &mut fake).await;
    let second = started(&client, &mut fake).await;
    let (one, two) = (first.id().to_string(), second.id().to_string());
    second.into_background();
    drop(first);
    let asked = fake.asked("process/terminate").await;
    assert_eq!(asked.params, json!({"processId": one, "survivors": "end"}));
    fake.exited(&two, 1, 0).await;
    drop(client);
    fake.asked("session/end").await;
    assert!(fake.next().await.is_none(), "the transport closes");
}

#[tokio::test]
async fn the_last_clone_that_is_dropped_ends_the_session() {
    let (client, mut fake) = connected(Plays::Codex).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    let mut events = client.events();
    let clone = client.clone();
    drop(client);
    let writing = clone.start(sh());
    let serving = fake.started();
    let (other, _) = tokio::join!(writing, serving);
    other.unwrap().into_background();
    drop(clone);
    // Codex's server has no `session/end`: each is ended.
    let mut ended = Vec::new();
    while let Some(message) = fake.next().await {
        assert_eq!(message["method"], "process/terminate");
        ended.push(message["params"]["processId"].as_str().unwrap().to_owned());
    }
    assert_eq!(ended.len(), 2);
    assert!(ended.contains(&id));
    drop(fake);
    assert!(matches!(
        process.wait(Until::Exited, None).await,
        Err(ClientError::Closed { .. })
    ));
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_start_nobody_waits_for_leaves_no_process() {
    let (client, mut fake) = connected(Plays::Ours).await;
    {
        let starting = client.start(sh());
        tokio::pin!(starting);
        let asked = tokio::select! {
            _ = &mut starting => panic!("nobody answered"),
            asked = fake.asked("process/start") => asked,
        };
        assert_eq!(asked.method, "process/start");
    }
    fake.asked("process/terminate").await;

    let (client, mut fake) = connected(Plays::V0).await;
    let asked = {
        let starting = client.start(StartSpec::new(["sh"], "/w"));
        tokio::pin!(starting);
        tokio::select! {
            _ = &mut starting => panic!("nobody answered"),
            asked = fake.asked("command/exec") => asked,
        }
    };
    fake.answer(&asked, json!({"sessionId": "session-1"})).await;
    let asked = fake.asked("command/exec/terminate").await;
    assert_eq!(asked.params, json!({"sessionId": "session-1"}));
}

#[tokio::test]
async fn v0_has_numbers_a_close_and_pictures_too() {
    let (client, mut fake) = connected(Plays::V0).await;
    let mut events = client.events();
    let spec = StartSpec::new(["sh"], "w").on_terminal(TerminalSize::default());
    let serving = async {
        let asked = fake.asked("command/exec").await;
        assert_eq!(
            asked.params,
            json!({"argv": ["sh"], "cwd": "w", "env": {}, "tty": true, "arg0": null})
        );
        fake.answer(&asked, json!({"sessionId": "session-1"})).await;
        for chunk in ["aGkK", "aG8K"] {
            let params = json!({"sessionId": "session-1", "stream": "stdout", "chunk": chunk});
            fake.say(json!({"method": "command/exec/outputDelta", "params": params}))
                .await;
        }
        let params = json!({"sessionId": "session-1", "exitCode": 4});
        fake.say(json!({"method": "command/exec/exited", "params": params}))
            .await;
    };
    let (process, ()) = tokio::join!(client.start(spec), serving);
    let process = process.unwrap();
    let exit = process.wait(Until::Closed, None).await.unwrap().unwrap();
    assert_eq!(exit.code, 4);
    assert_eq!(
        process.snapshot().await.unwrap().terminal.text(),
        "hi\nho\n"
    );
    for seq in 1..=2 {
        let event = events.next().await.unwrap();
        let Event::Output {
            seq: told, stream, ..
        } = event
        else {
            panic!("{event:?}");
        };
        assert_eq!((told, stream), (seq, StreamName::Pty));
    }
    assert!(matches!(
        events.next().await,
        Some(Event::Exited { seq: 3, .. })
    ));
    assert!(matches!(
        events.next().await,
        Some(Event::Closed { seq: 4, .. })
    ));
    let error = process.write("late").await.unwrap_err();
    assert!(matches!(error, ClientError::StdinClosed), "{error}");
    let error = client.start(sh()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn a_long_write_goes_in_pieces_in_order_and_each_once() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let input: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
    let serving = async {
        let mut got = Vec::new();
        let mut ids = std::collections::BTreeSet::new();
        while got.len() < input.len() {
            let asked = fake
                .serve("process/write", json!({"status": "accepted"}))
                .await;
            let chunk = asked.params["chunk"].as_str().unwrap();
            got.extend(
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, chunk).unwrap(),
            );
            assert!(ids.insert(asked.params["writeId"].as_str().unwrap().to_owned()));
        }
        got
    };
    let (written, got) = tokio::join!(process.write(input.clone()), serving);
    written.unwrap();
    assert!(got == input);
    let refusing = fake.serve("process/write", json!({"status": "stdinClosed"}));
    let (written, _) = tokio::join!(process.write("x"), refusing);
    assert!(matches!(written, Err(ClientError::StdinClosed)));
}

#[tokio::test]
async fn what_is_no_message_ends_the_connection_with_a_reason() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let mut events = client.events();
    fake.say(json!([1])).await;
    match events.next().await {
        Some(Event::Disconnected { reason }) => assert!(reason.contains("no message"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
