//! What is refused, and what a refusal leaves: nothing.

use turnlane_testkit::mock_model::Reply;

use super::World;

async fn world() -> World {
    World::new(|request| Reply::text(request.last_user_text())).await
}

#[tokio::test]
async fn prompts_that_are_none_are_refused() {
    let world = world().await;
    for (arguments, stdin, reason) in [
        (&["--json"][..], &b""[..], "No prompt provided via stdin."),
        (&["--json", "-"], b" \n", "No prompt provided via stdin."),
        (
            &["--json", "-"],
            b"ab\xC3(",
            "Failed to read prompt from stdin: input is not valid UTF-8 (invalid byte at offset 2). \
             Convert it to UTF-8 and retry (e.g., `iconv -f <ENC> -t UTF-8 prompt.txt`).",
        ),
        (
            &["--json", "-"],
            b"\xFF\xFEa",
            "Failed to read prompt from stdin: input looked like UTF-16LE but could not be decoded. \
             Convert it to UTF-8 and retry.",
        ),
    ] {
        world.run_with(arguments, stdin).await.is_refused(reason);
    }
    assert!(world.threads().await.is_empty());
    assert!(world.mock.requests().is_empty());
}

#[tokio::test]
async fn prompts_reach_the_model_as_the_table_says() {
    let world = world().await;
    let ran = world.run_with(&["--json", "p"], b"more").await;
    assert_eq!(
        ran.lines()[2]["item"]["text"],
        "p\n\n<stdin>\nmore\n</stdin>"
    );
    assert!(
        ran.stderr
            .contains("Reading additional input from stdin...")
    );
    let ran = world.run_with(&["--json", "-"], b"x\n").await;
    assert_eq!(ran.lines()[2]["item"]["text"], "x\n");
    let ran = world.run_with(&["--json"], b"y\n").await;
    assert_eq!(ran.lines()[2]["item"]["text"], "y\n");
    assert!(ran.stderr.contains("Reading prompt from stdin..."));
    let thread = ran.thread();
    let ran = world
        .run_with(&["--json", "resume", &thread, "arg"], b"unread")
        .await;
    assert_eq!(ran.lines()[2]["item"]["text"], "arg");
    let ran = world
        .run_with(&["--json", "resume", "--last"], b"piped")
        .await;
    assert_eq!(ran.lines()[2]["item"]["text"], "piped");
    let ran = world.run(&["--json", "fork", &thread]).await;
    assert_eq!(
        (ran.code, ran.types()),
        (0, vec!["thread.started".to_owned()])
    );
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_before_a_thread_exists() {
    let world = world().await;
    let bad = world.home.path().join("bad.json");
    std::fs::write(&bad, "{x").unwrap();
    let (bad, none) = (
        bad.display().to_string(),
        world.home.path().join("none").display().to_string(),
    );
    for (arguments, reason) in [
        (
            vec!["-c", "novalue"],
            "Error parsing -c overrides: Invalid override (missing '='): novalue".to_owned(),
        ),
        (
            vec!["-c", "model_provider=nope"],
            "Error: Model provider `nope` not found".to_owned(),
        ),
        (
            vec!["-C", &none],
            format!("Error: {none}: No such file or directory (os error 2)"),
        ),
        (
            vec!["--output-schema", &none],
            format!(
                "Failed to read output schema file {none}: No such file or directory (os error 2)"
            ),
        ),
        (
            vec!["--output-schema", &bad],
            format!(
                "Output schema file {bad} is not valid JSON: key must be a string at line 1 column 2"
            ),
        ),
    ] {
        let arguments = [&["--json"][..], &arguments, &["p"]].concat();
        world.run(&arguments).await.is_refused(&reason);
    }
    assert!(world.threads().await.is_empty());
    assert!(world.mock.requests().is_empty());
}

#[tokio::test]
async fn a_directory_outside_of_git_needs_a_word() {
    let world = world().await;
    // Directories of temporary files may lie in a work tree; this one does not.
    let outside = "/proc";
    let reason = "Not inside a trusted directory and --skip-git-repo-check was not specified.";
    world
        .run(&["--json", "-C", outside, "p"])
        .await
        .is_refused(reason);
    assert!(world.threads().await.is_empty());
    assert!(world.mock.requests().is_empty());
    let trusting = format!("projects.\"{outside}\".trust_level=trusted");
    for more in [
        &["--skip-git-repo-check"][..],
        &["--yolo"],
        &["-c", &trusting],
    ] {
        let ran = world
            .run(&[more, &["--json", "-C", outside, "p"]].concat())
            .await;
        assert_eq!(ran.code, 0, "{more:?}: {ran:?}");
    }
}

#[tokio::test]
async fn wrong_usage_is_2_with_usage_and_without_output() {
    let world = world().await;
    for arguments in [
        &["--nope", "p"][..],
        &["-s", "open", "p"],
        &["--color", "red", "p"],
        &["p", "--model"],
        &["--timeout", "soon", "p"],
        &["resume"],
        &["resume", "-s", "open", "t", "p"],
        &["resume", "--nope"],
        &["fork"],
        &["fork", "t", "-C"],
        &["review"],
        &["--worktree", "p"],
        &["--last", "p"],
        &["p", "q"],
    ] {
        let ran = world.run(arguments).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(
            ran.stderr.contains("Usage: turnlane exec"),
            "{}",
            ran.stderr
        );
    }
    for later in [&["review"][..], &["--worktree", "--", "p"]] {
        let ran = world.run(later).await;
        let said = "not supported by turnlane exec yet";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    assert!(world.threads().await.is_empty());
    assert!(world.mock.requests().is_empty());
}

#[tokio::test]
async fn options_of_codex_without_effect_are_accepted_and_named() {
    let world = world().await;
    let arguments = [
        "--approve-for-me",
        "--dangerously-bypass-hook-trust",
        "--cyber-access-program",
        "p",
        "--json",
        "p",
    ];
    let ran = world.run(&arguments).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    for name in arguments.iter().filter(|name| name.starts_with("--")) {
        let noted = ran.stderr.contains(&format!("note: {name} has no effect"));
        assert_eq!(noted, *name != "--json", "{name}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn settings_of_a_profile_and_of_flags_reach_the_model() {
    let world = world().await;
    let profile = world.home.codex().join("fast.config.toml");
    std::fs::write(&profile, "model = \"from-profile\"\n").unwrap();
    world.run(&["--json", "-p", "fast", "p"]).await;
    world
        .run(&["--json", "-m", "from-flag", "-p", "fast", "p"])
        .await;
    let first = world
        .run(&["--json", "-c", "model=from-override", "p"])
        .await;
    let thread = first.thread();
    world
        .run(&["--json", "resume", &thread, "-m", "later", "q"])
        .await;
    world.run(&["--json", "resume", &thread, "r"]).await;
    let requests = world.mock.requests();
    let models: Vec<_> = requests
        .iter()
        .map(|request| request.model().to_owned())
        .collect();
    assert_eq!(
        models,
        [
            "from-profile",
            "from-flag",
            "from-override",
            "later",
            "later"
        ]
    );
    let ran = world.run(&["-p", "none", "p"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
}

#[tokio::test]
async fn keys_and_names_of_the_environment_are_used() {
    let world = world().await;
    let url = format!("openai_base_url=\"{}\"", world.mock.base_url());
    let spec = world
        .spec(&["--json", "-c", "model_provider=openai", "-c", &url, "p"])
        .env("CODEX_API_KEY", "first")
        .env("OPENAI_API_KEY", "second")
        .env("CODEX_INTERNAL_ORIGINATOR_OVERRIDE", "codex_sdk_ts");
    let ran = super::ran(spec, b"").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let requests = world.mock.requests();
    assert_eq!(requests[0].bearer_key(), Some("first"));
    assert_eq!(requests[0].header("originator"), Some("codex_sdk_ts"));
    let threads = world.threads().await;
    assert_eq!(threads[0]["originator"], "codex_sdk_ts");
}
