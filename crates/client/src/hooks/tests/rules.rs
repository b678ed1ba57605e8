//! Every row of the table of rules, one by one.

use super::*;

#[tokio::test]
async fn phases_come_in_their_order_and_see_one_run() {
    let log = Log::default();
    let set = HookSet::new().on(all(), watching(&log, "w"));
    let mut runner = runner(&set);
    let mut subject = subject("hello");
    runner.before_thread(&mut subject).await.unwrap();
    runner.after_thread(&subject, MainStatus::Ok).await;
    runner.before_turn(&mut subject).await.unwrap();
    runner.after_turn(&subject, MainStatus::Error).await;
    assert_eq!(
        seen(&log),
        [
            "w@PreSessionStart",
            "w@PostSessionStart",
            "w@PreRun",
            "w@PreTurn",
            "w@PostTurn",
            "w@PostRun"
        ]
    );
    let log = log.lock().unwrap();
    let ids: Vec<_> = log.iter().map(|(_, seen)| &seen.correlation_id).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && !id.is_empty()));
    let ends: Vec<_> = log.iter().map(|(_, seen)| seen.main_status).collect();
    let (ok, error) = (Some(MainStatus::Ok), Some(MainStatus::Error));
    assert_eq!(ends, [None, ok, None, None, error, error]);
    assert_eq!(log[2].1.prompt.as_deref(), Some("hello"));
    assert_eq!(runner.report().runs.len(), 6);
    assert_eq!(runner.report().issues, []);
}

#[tokio::test]
async fn the_clients_hooks_come_first_then_the_threads_then_the_turns() {
    let log = Log::default();
    let phase = || at(HookPhase::PreTurn);
    let client = HookSet::new()
        .on(phase(), watching(&log, "c1"))
        .on(phase(), watching(&log, "c2"));
    let thread = HookSet::new()
        .on(phase(), watching(&log, "t"))
        // Of the same name: only the first is kept.
        .on(phase(), scripted(&log, "c1", |_| Ok(block("never asked"))));
    let turn = HookSet::new().on(phase(), watching(&log, "u"));
    let mut runner = HookRunner::new(&client, &thread, &turn);
    runner.before_turn(&mut subject("x")).await.unwrap();
    let order = ["c1@PreTurn", "c2@PreTurn", "t@PreTurn", "u@PreTurn"];
    assert_eq!(seen(&log), order);
}

#[tokio::test]
async fn the_first_no_wins_and_nobody_is_asked_after_it() {
    let log = Log::default();
    let pre = || at(HookPhase::PreTurn);
    let set = HookSet::new()
        .on(pre(), watching(&log, "first"))
        .on(pre(), scripted(&log, "guard", |_| Ok(block("not today"))))
        .on(pre(), watching(&log, "last"))
        .on(Matcher::phases(TURN), watching(&log, "w"));
    let mut runner = runner(&set);
    let blocked = runner.before_turn(&mut subject("x")).await.unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "blocked by hook 'guard' at PreTurn: not today"
    );
    // Both pre phases ran, so both post phases did.
    assert_eq!(
        seen(&log),
        [
            "w@PreRun",
            "first@PreTurn",
            "guard@PreTurn",
            "w@PostTurn",
            "w@PostRun"
        ]
    );
    let outcomes: Vec<_> = runner
        .report()
        .runs
        .into_iter()
        .map(|run| (run.hook, run.outcome))
        .collect();
    assert!(outcomes.contains(&("last".to_owned(), HookOutcome::Skipped)));
    assert!(outcomes.contains(&("guard".to_owned(), HookOutcome::Blocked)));
}

#[tokio::test]
async fn a_no_before_the_run_runs_only_what_belongs_to_the_run() {
    let log = Log::default();
    let set = HookSet::new()
        .on(
            at(HookPhase::PreRun),
            scripted(&log, "guard", |_| Ok(block(" "))),
        )
        .on(all(), watching(&log, "w"));
    let mut runner = runner(&set);
    let blocked = runner.before_turn(&mut subject("x")).await.unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "blocked by hook 'guard' at PreRun: blocked by hook (no message)"
    );
    assert_eq!(seen(&log), ["guard@PreRun", "w@PostRun"]);
}

#[tokio::test]
async fn a_no_before_the_thread_is_followed_by_its_post_phase() {
    let log = Log::default();
    let set = HookSet::new()
        .on(
            at(HookPhase::PreSessionStart),
            scripted(&log, "guard", |_| Ok(block("no"))),
        )
        .on(all(), watching(&log, "w"));
    let mut runner = runner(&set);
    let blocked = runner.before_thread(&mut subject("")).await.unwrap_err();
    assert_eq!(blocked.phase, "PreSessionStart");
    assert_eq!(seen(&log), ["guard@PreSessionStart", "w@PostSessionStart"]);
}

#[tokio::test]
async fn what_is_not_allowed_is_left_out_and_told_in_fixed_words() {
    let everything = HookPatch {
        prompt: Some("p".to_owned()),
        model: Some("m".to_owned()),
        attachments: vec![Attachment::ImageUrl("data:,".to_owned())],
        metadata: [("k".to_owned(), json!(1))].into_iter().collect(),
        tool_input: Some(json!({})),
    };
    let log = Log::default();
    let says = move |_: &HookContext| Ok(HookAction::Mutate(everything.clone()));
    let set = HookSet::new().on(all(), scripted(&log, "h", says));

    let mut session = runner(&set);
    let mut asked = subject("hello");
    session.before_thread(&mut asked).await.unwrap();
    assert_eq!(
        messages(&session),
        [
            "prompt_override is not allowed in PreSessionStart",
            "add_attachments is not allowed in PreSessionStart",
            "tool_input is not allowed in PreSessionStart"
        ]
    );
    assert_eq!(asked.model.as_deref(), Some("m"));
    assert_eq!(asked.metadata["k"], 1);
    assert_eq!(asked.input, "hello".into());
    assert!(asked.attachments.is_empty());

    let mut turn = runner(&set);
    let mut asked = subject("hello");
    turn.before_turn(&mut asked).await.unwrap();
    assert_eq!(
        messages(&turn),
        [
            "tool_input is not allowed in PreRun",
            "tool_input is not allowed in PreTurn"
        ]
    );
    assert_eq!(asked.input, "p".into());
    assert_eq!(asked.attachments.len(), 2);

    let mut after = runner(&set);
    let asked = subject("hello");
    after.after_thread(&asked, MainStatus::Ok).await;
    let changes = [
        "prompt_override",
        "add_attachments",
        "model_override",
        "metadata_delta",
        "tool_input",
    ];
    let expected = changes.map(|change| format!("{change} is not allowed in PostSessionStart"));
    assert_eq!(messages(&after), expected);
    let classes = after.report().issues;
    assert!(
        classes
            .iter()
            .all(|one| one.class == IssueClass::Validation)
    );
}

#[tokio::test]
async fn an_attachment_that_is_not_there_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("here.png"), "").unwrap();
    let log = Log::default();
    let says = |_: &HookContext| {
        let at = |path: &str| Attachment::LocalImage(PathBuf::from(path));
        Ok(HookAction::Mutate(HookPatch {
            attachments: vec![at("here.png"), at("gone.png")],
            ..HookPatch::default()
        }))
    };
    let set = HookSet::new().on(at(HookPhase::PreTurn), scripted(&log, "h", says));
    let mut runner = runner(&set);
    let mut asked = subject("x");
    asked.cwd = Some(dir.path().to_owned());
    runner.before_turn(&mut asked).await.unwrap();
    assert_eq!(
        asked.attachments,
        [Attachment::LocalImage(PathBuf::from("here.png"))]
    );
    assert_eq!(
        messages(&runner),
        ["hook attachment path not found; mutation ignored"]
    );
}

#[tokio::test]
async fn a_rewrite_to_nothing_is_a_failure() {
    let log = Log::default();
    let says = |_: &HookContext| {
        Ok(HookAction::Mutate(HookPatch {
            prompt: Some(" \n".to_owned()),
            ..HookPatch::default()
        }))
    };
    let set = HookSet::new().on(at(HookPhase::PreTurn), scripted(&log, "h", says));
    let mut asked = subject("hello");
    let blocked = runner(&set).before_turn(&mut asked).await.unwrap_err();
    assert_eq!(
        blocked.message,
        "hook failed (validation): the prompt is empty after a rewrite"
    );
    assert_eq!(asked.input, "hello".into());
}

#[tokio::test]
async fn metadata_starts_empty_and_flows_through_all_phases() {
    let log = Log::default();
    let says = |context: &HookContext| {
        let metadata = [
            (context.phase.to_string(), json!(true)),
            ("last".to_owned(), json!(context.phase.as_str())),
        ];
        Ok(HookAction::Mutate(HookPatch {
            metadata: metadata.into_iter().collect(),
            ..HookPatch::default()
        }))
    };
    let pre = [
        HookPhase::PreSessionStart,
        HookPhase::PreRun,
        HookPhase::PreTurn,
    ];
    let set = HookSet::new()
        .on(Matcher::phases(pre), scripted(&log, "h", says))
        .on(at(HookPhase::PostRun), watching(&log, "w"));
    let mut runner = runner(&set);
    let mut asked = subject("x");
    runner.before_thread(&mut asked).await.unwrap();
    runner.before_turn(&mut asked).await.unwrap();
    runner.after_turn(&asked, MainStatus::Ok).await;
    let log = log.lock().unwrap();
    assert_eq!(log[0].1.metadata.len(), 0);
    assert_eq!(log[1].1.metadata.len(), 2);
    let last = &log.last().unwrap().1.metadata;
    let expected = json!({"PreSessionStart": true, "PreRun": true, "PreTurn": true,
        "last": "PreTurn"});
    assert_eq!(json!(last), expected);
}

#[tokio::test]
async fn a_prefix_is_a_directory_and_not_a_beginning() {
    let log = Log::default();
    let below = at(HookPhase::PreTurn).cwd_prefix("/a");
    let set = HookSet::new().on(below, watching(&log, "h"));
    for (cwd, is_asked) in [
        (Some("/a"), true),
        (Some("/a/b"), true),
        (Some("/ab"), false),
        (None, false),
    ] {
        let mut asked = subject("x");
        asked.cwd = cwd.map(PathBuf::from);
        runner(&set).before_turn(&mut asked).await.unwrap();
        let was_asked = !std::mem::take(&mut *log.lock().unwrap()).is_empty();
        assert_eq!(was_asked, is_asked, "{cwd:?}");
    }
}

#[test]
fn hooks_about_tools_need_a_server_that_asks_them() {
    use crate::link::{ServerInfo, ServerKind};

    let server = |kind, features: &[&str]| ServerInfo {
        endpoint: "io".to_owned(),
        user_agent: String::new(),
        kind,
        version: None,
        product_version: None,
        features: features.iter().map(|word| (*word).to_owned()).collect(),
        codex_home: String::new(),
    };
    let log = Log::default();
    let plain = HookSet::new().on(all(), watching(&log, "h"));
    let tools = [HookPhase::PreToolUse, HookPhase::PostToolUse];
    for phase in tools {
        let set = HookSet::new().on(at(phase), watching(&log, "h"));
        for refused in [
            server(ServerKind::Codex, &[]),
            server(ServerKind::Turnlane, &["queue"]),
            server(ServerKind::Unknown, &["hook"]),
        ] {
            plain.check(&refused).unwrap();
            let error = set.check(&refused).unwrap_err();
            let CallError::Unsupported { method } = error else {
                panic!("{error:?}");
            };
            assert_eq!(method, "hook/register");
        }
        let served = server(ServerKind::Turnlane, &["hook"]);
        set.check(&served).unwrap();
        assert!(matches!(
            set.check_for_turn(&served),
            Err(CallError::InvalidArgument { what: "hooks", .. })
        ));
    }
}
