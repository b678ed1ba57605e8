//! Questions that end without their reviewer, are asked again, or are only watched.
//!
//! What is repeated on another connection was decided before; nobody is asked for it twice.

use super::*;

#[tokio::test]
async fn a_question_settled_elsewhere_ends_its_review_and_gets_no_answer() {
    let slow = Slow::default();
    let builder = Client::builder().reviewer(slow.clone());
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let question = asked(&double, COMMAND, asks(T, "t1", "i1"));
    slow.was_asked(1).await;
    // Another request's end says nothing about this one.
    double.tell(
        "serverRequest/resolved",
        json!({"threadId": T, "requestId": 99}),
    );
    nothing_else_is_sent(&mut double, &client).await;
    assert_eq!(slow.given_up.load(Ordering::SeqCst), 0);
    double.tell(
        "serverRequest/resolved",
        json!({"threadId": T, "requestId": 0}),
    );
    slow.was_given_up(1).await;
    nothing_else_is_sent(&mut double, &client).await;
    assert!(!question.is_finished());
    question.abort();
}

#[tokio::test]
async fn the_end_of_the_connection_ends_every_review() {
    let slow = Slow::default();
    let builder = Client::builder().reviewer(slow.clone());
    let (double, _client) = Double::connect(Kind::Codex, builder).await;
    let question = asked(&double, COMMAND, asks(T, "t1", "i1"));
    slow.was_asked(1).await;
    double.peer().close();
    joined(question).await.unwrap_err();
    slow.was_given_up(1).await;
}

#[tokio::test]
async fn a_decision_is_repeated_when_the_same_is_asked_on_another_connection() {
    let times = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&times);
    let reviewer = move |_: &ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        Decision::Accept
    };
    let mut site = Site::open().await;
    let builder = Client::builder().reviewer(reviewer);
    let (double, _client) = site.connect_with(Kind::Codex, builder).await;
    let answer = double.ask(COMMAND, asks(T, "t1", "i1")).await;
    assert_eq!(answer.unwrap(), word("accept"));
    double.peer().close();

    let again = site.accept(Kind::Codex).await;
    let mut same = asks(T, "t1", "i1");
    same["startedAtMs"] = json!(2);
    let answer = again.ask(COMMAND, same.clone()).await;
    assert_eq!(answer.unwrap(), word("accept"));
    assert_eq!(times.load(Ordering::SeqCst), 1);
    // More about the same item is another question.
    same["reason"] = json!("retry without sandbox");
    again.ask(COMMAND, same).await.unwrap();
    assert_eq!(times.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_review_cut_off_by_a_lost_connection_is_asked_again() {
    let slow = Slow::default();
    let mut site = Site::open().await;
    let builder = Client::builder().reviewer(slow.clone());
    let (double, _client) = site.connect_with(Kind::Codex, builder).await;
    let question = asked(&double, COMMAND, asks(T, "t1", "i1"));
    slow.was_asked(1).await;
    double.peer().close();
    joined(question).await.unwrap_err();
    slow.was_given_up(1).await;

    let again = site.accept(Kind::Codex).await;
    let question = asked(&again, COMMAND, asks(T, "t1", "i1"));
    slow.was_asked(2).await;
    slow.go.notify_waiters();
    assert_eq!(joined(question).await.unwrap(), word("accept"));
}

#[tokio::test]
async fn a_client_that_only_watches_is_not_asked_and_does_not_answer() {
    let (ours, theirs) = Duplex::memory();
    let mut double = Double::over(ours);
    let client = Client::builder()
        .reviews_elsewhere()
        .endpoint(Endpoint::io(theirs))
        .connect();
    let client = tokio::spawn(client);
    let initialize = double.expect("initialize").await;
    let opt_out = initialize.params["capabilities"]["optOutNotificationMethods"].clone();
    for method in [COMMAND, PATCH, PERMISSIONS, ELICITATION, QUESTIONS] {
        let opt_out = opt_out.as_array().unwrap();
        assert!(opt_out.contains(&json!(method)), "{method}");
    }
    initialize.answer(initialized(Kind::Codex));
    double.told().await;
    let client = joined(client).await.unwrap();

    // More than a connection would read if they counted as unanswered.
    let questions: Vec<_> = (0..1_100)
        .map(|n| asked(&double, COMMAND, asks(T, "t1", &format!("i{n}"))))
        .collect();
    let time = double.ask("currentTime/read", json!({})).await.unwrap();
    assert!(time["currentTimeAt"].is_i64());
    nothing_else_is_sent(&mut double, &client).await;
    assert!(questions.iter().all(|question| !question.is_finished()));
    questions.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn watching_and_deciding_exclude_each_other() {
    let (_ours, theirs) = Duplex::memory();
    let refused = Client::builder()
        .reviewer(turnlane::DeclineAll)
        .reviews_elsewhere()
        .endpoint(Endpoint::io(theirs))
        .connect()
        .await;
    assert!(matches!(
        refused.unwrap_err(),
        ConnectError::InvalidArgument {
            what: "reviews_elsewhere",
            ..
        }
    ));
}

#[tokio::test]
async fn the_turns_stream_tells_that_somebody_is_asked_and_what_was_decided() {
    let builder = Client::builder().reviewer(|_: &ApprovalRequest| Decision::Accept);
    let (double, client) = Double::connect(Kind::Codex, builder).await;
    let (mut double, _client, thread) = with_thread(double, client).await;
    let (stream, _) = tokio::join!(thread.turn("hello").stream(), double.start_turn(T, "t1"));
    let mut stream = stream.unwrap();
    double.ask(COMMAND, asks(T, "t1", "i1")).await.unwrap();
    double
        .ask(COMMAND, asks(T, "t2", "of another turn"))
        .await
        .unwrap();
    let notice = async {
        loop {
            if let TurnEvent::Approval(notice) = stream.next().await.unwrap().unwrap() {
                return notice;
            }
        }
    };
    let asked = within("the notice", DEADLINE, notice).await.unwrap();
    assert_eq!((asked.item.as_str(), asked.decision), ("i1", None));
    assert_eq!(asked.method, COMMAND);
    let decided = within("the decision", DEADLINE, stream.next())
        .await
        .unwrap();
    match decided.unwrap().unwrap() {
        TurnEvent::Approval(notice) => {
            assert_eq!(notice.decision, Some(Decision::Accept));
        }
        other => panic!("{other:?}"),
    }
    double.end_turn(T, "t1", "done");
    let outcome = stream.outcome().await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_patch_is_shown_with_the_changes_its_item_was_announced_with() {
    let builder = Client::builder().reviewer(|r: &ApprovalRequest| {
        let paths: Vec<_> = r.changes().iter().map(|one| one.path.as_str()).collect();
        match paths[..] {
            ["/srv/a"] => Decision::Accept,
            _ => Decision::Cancel,
        }
    });
    let (double, _client) = Double::connect(Kind::Codex, builder).await;
    let patch = |path: &str| {
        json!({"type": "fileChange", "id": "p1", "status": "inProgress",
            "changes": [{"path": path, "kind": {"type": "add"}, "diff": "x"}]})
    };
    double.item(T, "t1", "item/started", &patch("/srv/a"));
    double.item("other", "t1", "item/started", &patch("/etc/passwd"));
    let params = json!({"threadId": T, "turnId": "t1", "itemId": "p1", "startedAtMs": 1,
        "reason": null, "grantRoot": null});
    let answer = double.ask(PATCH, params.clone()).await.unwrap();
    assert_eq!(answer, word("accept"));
    let mut other = params;
    other["threadId"] = json!("other");
    assert_eq!(double.ask(PATCH, other).await.unwrap(), word("cancel"));
}

#[tokio::test]
async fn requests_of_any_shape_are_answered() {
    let builder = Client::builder()
        .reviewer(|_: &ApprovalRequest| Decision::Accept)
        .limits(Limits {
            review: Duration::from_secs(5),
            ..Limits::default()
        });
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    for method in [COMMAND, PATCH, PERMISSIONS, ELICITATION, QUESTIONS] {
        for params in [
            json!({}),
            json!([1]),
            json!({"threadId": 7, "itemId": {"a": []}, "command": [1, 2]}),
            json!({"permissions": 3, "requestedSchema": "x", "questions": {}}),
        ] {
            let answer = double.ask(method, params).await.unwrap();
            assert!(answer.is_object(), "{method}: {answer}");
        }
    }
    let options = CallOptions::default();
    let probe = client.call_raw("still/there", json!({}), options);
    let (probe, ()) = tokio::join!(probe, async {
        double.expect("still/there").await.answer(json!(1));
    });
    assert_eq!(probe.unwrap(), 1);
}
