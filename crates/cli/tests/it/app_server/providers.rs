//! What a client sees of a provider's moods: tries, failures, missing keys, overflow, usage.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use turnlane_testkit::TestClient;
use turnlane_testkit::mock_model::{ApiError, Cut, MockModel, Reply, Usage};

use super::{
    Served, Stdio, begin, came, completed_in, ended, greet, ok, refused, stored_in, thread, turn,
};

fn errors(client: &TestClient) -> Vec<Value> {
    let came = came(client, "error").into_iter();
    came.map(|message| message["params"].clone()).collect()
}

#[tokio::test]
async fn tries_are_told_and_the_turn_completes() {
    let served = Served::new(|_| Reply::text("at last")).await;
    let limited = ApiError::rate_limited().header("retry-after-ms", "10");
    served
        .mock
        .push(Reply::http_error(limited))
        .push(Reply::http_error(ApiError::server_error()))
        .push(Reply::streamed(["half", " and more"]).cut(Cut::AfterEvents(5)));
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let id = begin(client, &thread, "hello").await;
    assert_eq!(ended(client, &id).await["status"], "completed");
    let told = errors(client);
    let disconnected = json!({"responseStreamDisconnected": {"httpStatusCode": null}});
    for (error, (message, info, status)) in told.iter().zip([
        (
            "Reconnecting... 1/4",
            json!("rateLimitExceeded"),
            "http_status=429",
        ),
        (
            "Reconnecting... 2/4",
            json!("internalServerError"),
            "http_status=500",
        ),
        ("Reconnecting... 1/5", disconnected, ""),
    ]) {
        assert_eq!(error["willRetry"], true, "{error}");
        assert_eq!(error["threadId"], thread.as_str());
        assert_eq!(error["turnId"], id.as_str());
        assert_eq!(error["error"]["message"], message);
        assert_eq!(error["error"]["codexErrorInfo"], info);
        let details = error["error"]["additionalDetails"].as_str().unwrap_or("");
        assert!(details.contains(status), "{error}");
    }
    assert_eq!(told.len(), 3, "{told:?}");
    // The half message of the cut stream was shown, closed, and is not history.
    let messages: Vec<Value> = completed_in(client, &id)
        .iter()
        .filter(|item| item["type"] == "agentMessage")
        .map(|item| item["text"].clone())
        .collect();
    assert_eq!(messages, ["half", "at last"]);
    let stored = stored_in(client, &thread, &id).await;
    assert_eq!(stored.len(), 2, "{stored:?}");
    assert_eq!(stored[1]["text"], "at last");
    assert_eq!(served.mock.requests().len(), 4);
}

#[tokio::test]
async fn a_failed_turn_says_why_in_every_place_alike() {
    let served = Served::new(|_| Reply::text("fine")).await;
    let limits = turnlane_testkit::Provider {
        request_max_retries: Some(1),
        ..turnlane_testkit::Provider::default()
    };
    served
        .home
        .use_provider(&served.mock.base_url(), &limits)
        .unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    for (error, info, kind, start, attempts) in [
        (
            ApiError::unauthorized(),
            json!("unauthorized"),
            "auth",
            "unexpected status 401 Unauthorized: ",
            1,
        ),
        (
            ApiError::bad_request("input", "no such thing"),
            json!("badRequest"),
            "bad_request",
            "no such thing",
            1,
        ),
        (
            ApiError::model_not_found("mock-model"),
            json!("modelNotFound"),
            "model_not_found",
            "The model `mock-model`",
            1,
        ),
        (
            ApiError::insufficient_quota(),
            json!("usageLimitExceeded"),
            "quota",
            "Quota exceeded: ",
            1,
        ),
        (
            ApiError::server_error(),
            json!("internalServerError"),
            "server_error",
            "",
            2,
        ),
    ] {
        let status = error.status;
        for _ in 0..attempts {
            served.mock.push(Reply::http_error(error.clone()));
        }
        let id = begin(client, &thread, "hello").await;
        let end = ended(client, &id).await;
        assert_eq!(end["status"], "failed", "{kind}");
        assert_eq!(end["items"], json!([]), "{kind}");
        let said = &end["error"];
        assert_eq!(said["codexErrorInfo"], info, "{said}");
        assert_eq!(said["kind"], kind, "{said}");
        assert!(
            said["message"].as_str().unwrap().starts_with(start),
            "{said}"
        );
        let details = said["additionalDetails"].as_str().unwrap();
        assert!(details.contains(&format!("http_status={status}")), "{said}");
        assert!(details.contains(&format!("attempts={attempts}")), "{said}");
        let last = errors(client).pop().unwrap();
        assert_eq!(last["willRetry"], false, "{last}");
        assert_eq!(last["error"], *said);
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = ok(client, "thread/read", params).await;
        let turns = read["thread"]["turns"].as_array().unwrap();
        assert_eq!(turns.last().unwrap()["error"], *said);
        assert_eq!(read["thread"]["status"]["type"], "systemError", "{kind}");
    }
    // The thread stays usable.
    assert_eq!(turn(client, &thread, "again").await["status"], "completed");
}

#[tokio::test]
async fn a_missing_key_is_told_at_the_start_and_fails_the_turn_without_a_request() {
    let served = Served::new(|_| Reply::text("never")).await;
    let name = turnlane_testkit::MOCK_KEY_VARIABLE;
    let without = served.home.env().into_iter().filter(|(key, _)| key != name);
    let spec = crate::turnlane(&["app-server"])
        .envs(without)
        .current_dir(served.home.workspace());
    let mut process = turnlane_testkit::TestProcess::start(spec).unwrap();
    let stdin = process.take_stdin().unwrap();
    let stdout = process.take_stdout().unwrap();
    let mut client = TestClient::new(turnlane_rpc::Duplex::lines(stdout, stdin));
    greet(&mut client).await;
    let mut server = Stdio { process, client };
    let client = &mut server.client;
    let started = ok(client, "thread/start", json!({"cwd": served.work()})).await;
    let missing = format!("Missing environment variable: `{name}`.");
    assert_eq!(started["engineStatus"]["ok"], false, "{started}");
    assert_eq!(started["engineStatus"]["reason"], missing);
    let id = started["thread"]["id"].as_str().unwrap();
    let end = turn(client, id, "hello").await;
    assert_eq!(end["status"], "failed");
    assert_eq!(end["error"]["codexErrorInfo"], "unauthorized");
    assert_eq!(end["error"]["kind"], "auth");
    assert_eq!(end["error"]["message"], missing);
    assert!(served.mock.requests().is_empty());

    // A key in our own file counts from the next turn.
    let keys = served.home.turnlane().join("keys.env");
    std::fs::write(&keys, format!("{name}=from-the-key-file\n")).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(turn(client, id, "again").await["status"], "completed");
    let requests = served.mock.requests();
    assert_eq!(requests[0].bearer_key(), Some("from-the-key-file"));
}

#[tokio::test]
async fn a_provider_that_is_nowhere_described_is_refused_at_the_start() {
    let served = Served::new(|_| Reply::text("never")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let params = json!({"cwd": served.work(), "modelProvider": "nowhere"});
    let error = refused(client, "thread/start", params).await;
    assert_eq!(error["message"], "Model provider `nowhere` not found");
    let listed = ok(client, "thread/list", json!({})).await;
    assert_eq!(listed["data"], json!([]));
    let started = ok(client, "thread/start", json!({"cwd": served.work()})).await;
    assert_eq!(started["engineStatus"], json!({"ok": true, "reason": null}));
    assert_eq!(started["modelProvider"], "mock");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_not_tried_again() {
    let elsewhere = MockModel::start().await.unwrap();
    let target = format!("{}/responses", elsewhere.base_url());
    let served = Served::new(move |_| Reply::redirect(&target)).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let end = turn(client, &thread, "hello").await;
    assert_eq!(end["status"], "failed");
    let info = &end["error"]["codexErrorInfo"]["httpConnectionFailed"]["httpStatusCode"];
    assert!((300..400).contains(&info.as_u64().unwrap()), "{end}");
    assert_eq!(served.mock.requests().len(), 1);
    assert!(elsewhere.requests().is_empty() && elsewhere.other_requests().is_empty());
}

/// The texts of the user and the model in a request, in order.
fn texts(input: &[Value]) -> Vec<String> {
    let contents = input
        .iter()
        .filter_map(|item| item["content"][0]["text"].as_str());
    contents.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_compaction_by_request_is_a_turn_with_one_item_and_shortens_the_history() {
    let served = Served::new(|_| Reply::text("an answer")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    turn(client, &thread, "first").await;
    turn(client, &thread, "second").await;
    served.mock.push(Reply::text("what happened so far"));
    let before = client.received().len();
    let params = json!({"threadId": thread});
    assert_eq!(ok(client, "thread/compact/start", params).await, json!({}));
    let ends = |message: &Value| message["method"] == "turn/completed";
    while !client.received()[before..].iter().any(ends) {
        client.next().await.unwrap();
    }
    let end = client.received()[before..].iter().find(|it| ends(it));
    let end = end.unwrap()["params"]["turn"].clone();
    assert_eq!(end["status"], "completed", "{end}");
    let id = end["id"].as_str().unwrap();
    let items = completed_in(client, id);
    let kinds: Vec<_> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["contextCompaction"]);
    assert_eq!(stored_in(client, &thread, id).await, items);

    turn(client, &thread, "third").await;
    let requests = served.mock.requests();
    assert!(requests[2].tool_names().is_empty());
    let sent = texts(requests[3].input());
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert_eq!([&sent[0], &sent[1], &sent[3]], ["first", "second", "third"]);
    assert!(sent[2].contains("what happened so far"), "{sent:?}");
}

#[tokio::test]
async fn an_overflow_is_compacted_away_and_the_turn_completes() {
    let served = Served::new(|_| Reply::text("an answer")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    turn(client, &thread, "first").await;
    served
        .mock
        .push(Reply::http_error(ApiError::context_length_exceeded()))
        .push(Reply::text("what happened so far"))
        .push(Reply::text("now it fits"));
    let id = begin(client, &thread, "second").await;
    assert_eq!(ended(client, &id).await["status"], "completed");
    let items = completed_in(client, &id);
    let kinds: Vec<_> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["userMessage", "contextCompaction", "agentMessage"]);
    assert_eq!(items[2]["text"], "now it fits");
    assert_eq!(stored_in(client, &thread, &id).await, items);

    // Two in a row are the end of the turn, and leave the thread usable.
    served
        .mock
        .push(Reply::http_error(ApiError::context_length_exceeded()))
        .push(Reply::text("shorter"))
        .push(Reply::http_error(ApiError::context_length_exceeded()));
    let end = turn(client, &thread, "third").await;
    assert_eq!(end["status"], "failed", "{end}");
    assert_eq!(end["error"]["codexErrorInfo"], "contextWindowExceeded");
    assert_eq!(end["error"]["kind"], "context_exhausted");
    assert_eq!(turn(client, &thread, "fourth").await["status"], "completed");
}

#[tokio::test]
async fn usage_is_told_after_each_answer_and_adds_up_over_restarts() {
    let served = Served::new(|_| Reply::text("an answer")).await;
    let mut server = served
        .stdio_with(&["-c", "model_context_window=100000"])
        .await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let id = begin(client, &thread, "hello").await;
    ended(client, &id).await;
    let last = json!({
        "totalTokens": 120, "inputTokens": 100, "cachedInputTokens": 40,
        "cacheWriteInputTokens": 7, "outputTokens": 20, "reasoningOutputTokens": 5,
    });
    let told = came(client, "thread/tokenUsage/updated");
    assert_eq!(told.len(), 1, "{told:#?}");
    let expected = json!({"threadId": thread, "turnId": id, "tokenUsage": {
        "total": last, "last": last, "modelContextWindow": 95_000,
    }});
    assert_eq!(told[0]["params"], expected);
    served.mock.push(Reply::text("unknown").without_usage());
    turn(client, &thread, "again").await;
    let told = came(client, "thread/tokenUsage/updated");
    assert_eq!(told.len(), 1, "{told:#?}");
    drop(server);

    let mut server = served.stdio().await;
    let client = &mut server.client;
    ok(client, "thread/resume", json!({"threadId": thread})).await;
    let usage = Usage {
        input: 1,
        cached_input: 0,
        cache_write_input: 0,
        output: 2,
        reasoning_output: 0,
    };
    served.mock.push(Reply::text("small").usage(usage));
    let id = begin(client, &thread, "third").await;
    ended(client, &id).await;
    let told = came(client, "thread/tokenUsage/updated");
    let params = &told.last().unwrap()["params"];
    assert_eq!(params["turnId"], id.as_str());
    assert_eq!(params["tokenUsage"]["last"]["totalTokens"], 3);
    assert_eq!(params["tokenUsage"]["total"]["totalTokens"], 123);
    assert_eq!(params["tokenUsage"]["total"]["cachedInputTokens"], 40);
}
