//! `turnlane run` and `turnlane exec` with the real Codex, as a person types them.

use serde_json::Value;
use turnlane_testkit::mock_model::{RecordedRequest, Reply};
use turnlane_testkit::{Output, ProcessSpec};

use super::world::World;

fn words(request: &RecordedRequest) -> Reply {
    Reply::text(format!("did {}", request.last_user_text()))
}

/// The binary with Codex in `PATH` alone.
fn typed(world: &World, arguments: &[&str]) -> ProcessSpec {
    let config = world.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    if let Some((shared, _)) = text.split_once("\n[engine.codex]") {
        std::fs::write(&config, format!("{shared}\n")).unwrap();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", world.bin().display());
    world.spec(arguments).env("PATH", path)
}

async fn run(world: &World, arguments: &[&str]) -> Output {
    let output = crate::run(typed(world, arguments)).await;
    let said = &output.stderr_tail;
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[tokio::test]
async fn a_person_runs_codex_from_a_shell() {
    let Some(world) = World::new(words).await else {
        return;
    };
    for (flags, prompt) in [
        (&["--engine", "codex"][..], "by codex"),
        (&["--engine", "codex-exec"], "by codex-exec"),
        (&["-c", "engine=codex"], "by configuration"),
        (&["-c", "engine=codex-exec"], "by other configuration"),
    ] {
        let output = run(&world, &[&["run"], flags, &[prompt]].concat()).await;
        let answer = String::from_utf8(output.stdout).unwrap();
        assert_eq!(answer, format!("did {prompt}\n"));
        assert_eq!(world.calls(prompt), 1, "{prompt}");
        world.no_codex_left().await;
    }
}

#[tokio::test]
async fn a_script_resumes_a_thread_of_codex() {
    let Some(world) = World::new(words).await else {
        return;
    };
    for engine in ["codex", "codex-exec"] {
        let first = run(&world, &["exec", "--json", "--engine", engine, "one"]).await;
        let first = lines(&first);
        let thread = first[0]["thread_id"].as_str().unwrap();
        let again = run(&world, &["exec", "--json", "resume", thread, "two"]).await;
        let again = lines(&again);
        assert_eq!(again[0]["thread_id"], thread);
        let last = again.last().unwrap();
        assert_eq!(last["type"], "turn.completed", "{again:?}");
        assert_eq!(last["turn_usage"]["input_tokens"], 100, "{last}");
        assert_eq!(last["usage"]["input_tokens"], 200, "{last}");
        let sent = world.mock.take_requests();
        let sent = serde_json::json!(sent.last().unwrap().input()).to_string();
        assert!(sent.contains("did one"), "{sent}");
        world.no_codex_left().await;
    }
}
