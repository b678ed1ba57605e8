//! The CLI shows characters that steer a terminal, and invisible ones, by their number, in pipes too.

use serde_json::Value;
use turnlane_testkit::mock_model::Reply;

use super::{World, ran};
use crate::run;

/// An escape sequence, a title, C1, DEL, a lone return, both kinds of bidirectional control, marks,
/// a zero-width space, a tag and a byte order mark; with a line end and a tab.
const HOSTILE: &str = "a\x1b[2Jb\x1b]0;t\x07c\u{9b}31md\u{7f}e\rf\u{202e}g\u{2066}h\u{200e}\u{200f}\
    \u{61c}i\u{200b}j\u{e0041}k\u{feff}\n\tend";

/// Whether a reader would not see it. Written anew, so that it does not share a mistake.
fn is_hidden(char: char) -> bool {
    let number = u32::from(char);
    (number < 0x20 && char != '\n' && char != '\t')
        || (0x7f..=0x9f).contains(&number)
        || [0x61c, 0x200b, 0x200e, 0x200f, 0xfeff].contains(&number)
        || (0x2028..=0x202e).contains(&number)
        || (0x2060..=0x206f).contains(&number)
        || (0xe0000..=0xe0fff).contains(&number)
}

fn assert_visible(what: &str, text: &str) {
    let found: Vec<_> = text.chars().filter(|char| is_hidden(*char)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
}

#[tokio::test]
async fn an_answer_in_a_pipe_shows_what_a_terminal_would_obey() {
    let world = World::new(|_| Reply::text(HOSTILE)).await;
    for command in ["exec", "run"] {
        let spec = crate::turnlane(&[command, "--skip-git-repo-check", HOSTILE])
            .envs(world.home.env())
            .current_dir(world.home.workspace());
        let ran = ran(spec, b"").await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_visible("standard output", &ran.stdout);
        assert_visible("standard error", &ran.stderr);
        let expected = "a\\u{1b}[2Jb\\u{1b}]0;t\\u{7}c\\u{9b}31md\\u{7f}e\\u{d}f\\u{202e}g\\u{2066}h\
            \\u{200e}\\u{200f}\\u{61c}i\\u{200b}j\\u{e0041}k\\u{feff}\n\tend\n";
        assert_eq!(ran.stdout, expected);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn json_lines_show_everything_and_mean_the_same() {
    let world = World::new(|_| Reply::text(HOSTILE)).await;
    let ran = world.run(&["--json", "hi"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_visible("standard output", &ran.stdout);
    let texts: Vec<_> = ran
        .lines()
        .iter()
        .map(|line| line["item"]["text"].clone())
        .collect();
    assert!(texts.contains(&Value::from(HOSTILE)), "{texts:?}");

    let thread = ran.thread();
    let spec = crate::turnlane(&["thread", "show", &thread, "--json"])
        .envs(world.home.env())
        .current_dir(world.home.workspace());
    let shown = String::from_utf8(run(spec).await.stdout).unwrap();
    assert_visible("thread show", &shown);
    let values: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let holds = |value: &Value| holds_text(value, HOSTILE);
    assert!(values.iter().any(holds), "{shown}");
}

fn holds_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Array(all) => all.iter().any(|value| holds_text(value, text)),
        Value::Object(all) => all.values().any(|value| holds_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[tokio::test]
async fn an_argument_that_is_repeated_is_made_visible() {
    let world = World::new(|_| Reply::text("hi")).await;
    for arguments in [
        &[HOSTILE][..],
        &["exec", "--color", HOSTILE],
        &["exec", "-C", HOSTILE, "hi"],
        &["exec", "-c", HOSTILE, "hi"],
        &["exec", "-p", HOSTILE, "hi"],
        &["-c", HOSTILE, "serve"],
        &["thread", "show", HOSTILE],
        &["thread", "list", "--server", HOSTILE],
        &["queue", "add", "--thread", HOSTILE, "hi"],
        &["app-server", "--listen", HOSTILE],
        &["serve", "--listen", HOSTILE],
        &["exec-server", "--listen", HOSTILE],
        &["app-server", "--script", HOSTILE],
    ] {
        let spec = crate::turnlane(arguments)
            .envs(world.home.env())
            .current_dir(world.home.workspace());
        let ran = run(spec).await;
        assert!(!ran.status.success(), "{arguments:?}");
        assert_visible(&format!("{arguments:?}"), &ran.stderr_tail);
        assert_visible(
            &format!("{arguments:?}"),
            &String::from_utf8_lossy(&ran.stdout),
        );
        assert!(
            ran.stderr_tail.contains("\\u{"),
            "{arguments:?}: {}",
            ran.stderr_tail
        );
    }
    let spec = crate::turnlane(&["thread", "list"])
        .envs(world.home.env())
        .env("RUST_LOG", HOSTILE)
        .current_dir(world.home.workspace());
    assert_visible("RUST_LOG", &run(spec).await.stderr_tail);
}
