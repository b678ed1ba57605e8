//! The window, the memory of what is not supported, overload, time limits, sizes.

use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered_and_never_more_than_the_window_is_in_flight() {
    let (link, _, mut far) = pair().await;
    let calls: Vec<_> = (0..1_000)
        .map(|n| spawned(&link, with_params("echo", &json!({ "n": n }))))
        .collect();
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        let mut most = 0;
        for _ in 0..1_000 {
            // The window is full, or all have been asked: only an answer brings the next.
            if held.len() == 64 {
                assert_eq!(far.peer.waiting().unanswered, 64);
                let (params, responder): (Value, Responder) = held.swap_remove(0);
                responder.result(&params);
            }
            let (_, params, responder) = far.asked().await;
            held.push((params, responder));
            most = most.max(held.len());
        }
        for (params, responder) in held {
            responder.result(&params);
        }
        most
    });
    for (n, call) in calls.into_iter().enumerate() {
        let answer = call.await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        assert_eq!(answer, json!({ "n": n }));
    }
    assert_eq!(server.await.unwrap(), 64);
    let metrics = link.metrics();
    assert_eq!((metrics.sent, metrics.answered), (1_000, 1_000));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_runs_while_it_waits_for_the_window() {
    let (link, _, mut far) = pair_with(|options| options.limits.in_flight = 1).await;
    let first = spawned(&link, call("slow"));
    let (_, _, responder) = far.asked().await;
    let started = Instant::now();
    let second = Call {
        timeout: Some(SECOND),
        ..call("second")
    };
    let error = link.call(second).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Timeout { method, after } if method == "second" && *after == SECOND),
        "{error:?}"
    );
    assert_eq!(started.elapsed(), SECOND);
    assert_eq!((link.metrics().timed_out, link.metrics().sent), (1, 1));
    responder.result(&json!({}));
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_method_that_is_not_there_is_asked_for_once_per_connection() {
    let (link, _, mut far) = pair().await;
    let rows = [
        ("a/b", bare(-32601, "no")),
        (
            "c/d",
            bare(
                -32600,
                "Invalid request: unknown variant `c/d`, expected one of `x`",
            ),
        ),
    ];
    for (method, error) in rows {
        let asking = spawned(&link, call(method));
        far.asked().await.2.error(&error);
        let unsupported =
            |error: CallError| matches!(error, CallError::Unsupported { method: m } if m == method);
        assert!(unsupported(asking.await.unwrap().unwrap_err()));
        // Nothing is sent any more: the far side would have to answer it.
        assert!(unsupported(link.call(call(method)).await.unwrap_err()));
    }
    assert_eq!(link.metrics().sent, 2);
    let other = spawned(&link, call("e/f"));
    let error = bare(-32600, "Invalid request: unknown variant `zzz`");
    far.asked().await.2.error(&error);
    assert!(matches!(
        other.await.unwrap().unwrap_err(),
        CallError::Rpc(error) if error.code == -32600
    ));
}

#[tokio::test]
async fn what_needs_the_experimental_api_is_not_asked_for_without_it() {
    let (link, _, _far) = pair_with(|options| options.experimental_api = false).await;
    for method in ["thread/queue/add", "thread/turns/list", "thread/items/list"] {
        let error = link.call(call(method)).await.unwrap_err();
        assert!(matches!(error, CallError::Unsupported { .. }), "{error:?}");
    }
    assert_eq!(link.metrics().sent, 0);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_again_with_growing_pauses_at_most_five_times() {
    let (link, _, mut far) = pair().await;
    let asking = spawned(&link, harmless("thread/read"));
    let mut at = Vec::new();
    for _ in 0..6 {
        let (_, _, responder) = far.asked().await;
        at.push(Instant::now());
        responder.error(&ErrorObject::overloaded(700));
    }
    let error = asking.await.unwrap().unwrap_err();
    assert!(
        matches!(error, CallError::Overloaded { retry_after } if retry_after.as_millis() == 700),
        "{error:?}"
    );
    let pauses: Vec<u128> = at
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_millis())
        .collect();
    for (pause, expected) in pauses.iter().zip([50, 100, 200, 400, 800]) {
        let bounds = expected * 8 / 10..=expected * 12 / 10 + 1;
        assert!(bounds.contains(pause), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overload_that_passes_is_not_seen() {
    let (link, _, mut far) = pair().await;
    let asking = spawned(&link, harmless("thread/read"));
    far.asked().await.2.error(&ErrorObject::overloaded(700));
    far.asked().await.2.result(&json!({"n": 1}));
    assert_eq!(asking.await.unwrap().unwrap().get(), r#"{"n":1}"#);
}

#[tokio::test(start_paused = true)]
async fn what_could_happen_twice_is_not_repeated_for_overload() {
    let (link, _, mut far) = pair().await;
    let asking = spawned(&link, call("turn/start"));
    far.asked().await.2.error(&bare(-32001, "later"));
    let error = asking.await.unwrap().unwrap_err();
    assert!(
        matches!(error, CallError::Overloaded { retry_after } if retry_after.as_millis() == 250),
        "{error:?}"
    );
    assert_eq!(link.metrics().sent, 1);
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_call_and_no_other() {
    let (near, far) = tokio::io::duplex(1 << 20);
    let lines = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Duplex::lines(reader, writer)
    };
    let mut far = Far::new(lines(far));
    let mut given = options(Endpoint::io(lines(near)));
    given.limits.max_frame = 4_096;
    let (opened, ()) = tokio::join!(open(given), far.initialise());
    let (link, _) = opened.unwrap();

    let large = spawned(&link, call("large"));
    far.asked().await.2.result(&json!("x".repeat(100_000)));
    let error = large.await.unwrap().unwrap_err();
    let CallError::Transport(TransportError::FrameTooLarge { bytes, limit }) = error else {
        panic!("{error:?}");
    };
    assert!(bytes > 100_000 && limit == 4_096, "{bytes} {limit}");

    let small = spawned(&link, call("small"));
    far.asked().await.2.result(&json!(7));
    assert_eq!(small.await.unwrap().unwrap().get(), "7");

    // What we would write is held to the same limit, and never sent.
    let request = with_params("much", &json!({"text": "x".repeat(5_000)}));
    let error = link.call(request).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Transport(TransportError::FrameTooLarge { limit: 4_096, .. })
        ),
        "{error:?}"
    );
    assert_eq!(link.metrics().sent, 2);
}

#[tokio::test]
async fn large_requests_at_once_wait_for_each_other_and_do_not_end_the_connection() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let lines = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Duplex::lines(reader, writer)
    };
    let mut far = Far::new(lines(far));
    let mut given = options(Endpoint::io(lines(near)));
    // The outbox gives up at about 34 MiB then.
    given.limits.max_frame = 1 << 20;
    let (opened, ()) = tokio::join!(open(given), far.initialise());
    let (link, _) = opened.unwrap();
    let much = with_params("much", &json!({"text": "x".repeat(1_000_000)}));
    let calls: Vec<_> = (0..48).map(|_| spawned(&link, much.clone())).collect();
    for _ in 0..48 {
        let Some(Incoming::Request(request)) = far.next().await else {
            panic!("the connection ended");
        };
        request.responder.result(&json!({}));
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_the_server_says_is_handed_over_in_its_order() {
    let (near, far) = Duplex::memory();
    let mut far = Far::new(far);
    let server = async {
        let (_, _, responder) = far.asked().await;
        far.peer.tell("early/1", &json!({})).unwrap();
        far.peer.tell("early/2", &json!({})).unwrap();
        responder.result(&json!({"userAgent": "x/1.2.3"}));
        far.peer.tell("late/1", &json!({})).unwrap();
    };
    let (opened, ()) = tokio::join!(open(options(Endpoint::io(near))), server);
    let (_link, heard) = opened.unwrap();
    assert!(matches!(far.next().await, Some(Incoming::Notification(_))));
    let asked = far.peer.call::<Value>("ask/1", &json!({})).await.unwrap();
    assert_eq!(asked, json!({}));
    far.peer.tell("late/2", &json!({})).unwrap();
    heard.until("told late/2").await;
    assert_eq!(
        heard.words(),
        [
            "told early/1",
            "told early/2",
            "told late/1",
            "asked ask/1",
            "told late/2"
        ]
    );
}
