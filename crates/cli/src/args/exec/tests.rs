//! The grammar of `turnlane exec`, row by row.

use clap::Parser as _;

use super::super::Command;
use super::options::SandboxArg;
use super::*;

fn parsed(line: &[&str]) -> Result<Wish, clap::Error> {
    let args = Args::try_parse_from(["turnlane", "exec"].iter().chain(line))?;
    let Command::Exec(exec) = args.command else {
        panic!("another command");
    };
    exec.wish()
}

fn wish(line: &[&str]) -> Wish {
    parsed(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

fn exit_code(line: &[&str]) -> i32 {
    parsed(line).map_or_else(|error| error.exit_code(), |_| 0)
}

#[test]
fn the_order_of_the_official_sdk_is_understood() {
    let wish = wish(&[
        "--experimental-json",
        "--config",
        "a.b=1",
        "--config",
        "openai_base_url=\"http://127.0.0.1:1/v1\"",
        "--model",
        "m",
        "--thread-source",
        "s",
        "--sandbox",
        "workspace-write",
        "--cd",
        "/w",
        "--add-dir",
        "/x",
        "--add-dir",
        "/y",
        "--skip-git-repo-check",
        "--output-schema",
        "/s.json",
        "--config",
        "model_reasoning_effort=\"high\"",
        "--config",
        "sandbox_workspace_write.network_access=true",
        "--config",
        "web_search=\"disabled\"",
        "--config",
        "approval_policy=\"never\"",
        "resume",
        "ID",
        "--image",
        "a.png",
        "--image",
        "b.png",
    ]);
    assert_eq!(
        wish.what,
        Wanted::Resume {
            which: Which::Named("ID".to_owned()),
            prompt: None
        }
    );
    assert_eq!(
        wish.images,
        [PathBuf::from("a.png"), PathBuf::from("b.png")]
    );
    let options = wish.options;
    assert!(options.json && options.skip_git_repo_check);
    assert_eq!(options.config.len(), 6);
    assert_eq!(options.add_dir.len(), 2);
    assert_eq!(options.sandbox, Some(SandboxArg::WorkspaceWrite));
}

#[test]
fn the_order_of_batty_is_understood_on_first_and_later_messages() {
    let bypass = "--dangerously-bypass-approvals-and-sandbox";
    let head = [
        "--json",
        "-m",
        "M",
        "-c",
        "model_reasoning_effort=\"high\"",
        bypass,
    ];
    let first = wish(&[&head[..], &["-"]].concat());
    let dash = || Some("-".to_owned());
    assert_eq!(first.what, Wanted::New { prompt: dash() });
    assert!(first.options.dangerously_bypass_approvals_and_sandbox);
    let later = wish(&[&head[..], &["resume", "ID", "-"]].concat());
    let which = Which::Named("ID".to_owned());
    let prompt = dash();
    assert_eq!(later.what, Wanted::Resume { which, prompt });
}

/// Every option with a value that it takes.
const OPTIONS: &[&[&str]] = &[
    &["--json"],
    &["--experimental-json"],
    &["-m", "m"],
    &["--model", "m"],
    &["-c", "k=v"],
    &["--config", "k=v"],
    &["-C", "/d"],
    &["--cd", "/d"],
    &["-s", "read-only"],
    &["--sandbox", "danger-full-access"],
    &["--add-dir", "/d"],
    &["--skip-git-repo-check"],
    &["--dangerously-bypass-approvals-and-sandbox"],
    &["--yolo"],
    &["--output-schema", "f"],
    &["-o", "f"],
    &["--output-last-message", "f"],
    &["--ephemeral"],
    &["--all"],
    &["--color", "always"],
    &["-p", "n"],
    &["--profile", "n"],
    &["--enable", "f"],
    &["--disable", "f"],
    &["--thread-source", "s"],
    &["--strict-config"],
    &["--ignore-user-config"],
    &["--ignore-rules"],
    &["--oss"],
    &["--local-provider", "p"],
    &["--approve-for-me"],
    &["--dangerously-bypass-hook-trust"],
    &["--cyber-access-program", "p"],
    &["--engine", "native"],
    &["--no-wait"],
    &["--timeout", "5"],
    &["--script", "f"],
];

#[test]
fn every_option_stands_on_either_side_of_resume() {
    for option in OPTIONS {
        let before = wish(&[option, &["resume", "ID", "P"][..]].concat());
        let after = wish(&[&["resume", "ID"][..], option, &["P"]].concat());
        let shown = |wish: &Wish| format!("{wish:?}");
        assert_eq!(shown(&before), shown(&after), "{option:?}");
        let both = [option, &["resume", "ID"][..], option, option, &["P"]].concat();
        assert_eq!(exit_code(&both), 0, "{option:?}");
        if let [name, value] = option
            && name.starts_with("--")
        {
            let joined = format!("{name}={value}");
            let equal = wish(&["resume", "ID", &joined, "P"]);
            assert_eq!(shown(&equal), shown(&after), "{option:?}");
        }
    }
    let last = wish(&["--last", "resume", "WORD"]).what;
    let prompt = Some("WORD".to_owned());
    let which = Which::Last;
    assert_eq!(last, Wanted::Resume { which, prompt });
    assert_eq!(last, wish(&["resume", "--last", "WORD"]).what);
}

#[test]
fn the_later_of_two_wins_and_lists_add_up() {
    let wish = wish(&[
        "-m",
        "a",
        "-c",
        "x=1",
        "-s",
        "read-only",
        "-m",
        "b",
        "resume",
        "ID",
        "-m",
        "c",
        "-c",
        "x=2",
        "-s",
        "workspace-write",
    ]);
    assert_eq!(wish.options.model.as_deref(), Some("c"));
    assert_eq!(wish.options.config, ["x=1", "x=2"]);
    assert_eq!(wish.options.sandbox, Some(SandboxArg::WorkspaceWrite));
}

#[test]
fn images_are_variadic_before_a_subcommand_only() {
    let new = wish(&["-i", "a.png", "b.png", "--", "P"]);
    assert_eq!(new.images.len(), 2);
    let prompt = Some("P".to_owned());
    assert_eq!(new.what, Wanted::New { prompt });
    let eaten = wish(&["-i", "a.png", "P"]);
    assert_eq!(eaten.images.len(), 2);
    assert_eq!(eaten.what, Wanted::New { prompt: None });
    let resumed = wish(&["resume", "ID", "-i", "a.png", "P"]);
    assert_eq!(resumed.images.len(), 1);
}

#[test]
fn wrong_usage_has_exit_code_2() {
    for line in [
        &["--nope"][..],
        &["-m"],
        &["-s", "open"],
        &["--color", "sometimes"],
        &["--timeout", "soon"],
        &["resume"],
        &["resume", "--last", "A", "B"],
        &["fork"],
        &["fork", "--last", "P"],
        &["--last", "P"],
        &["--worktree", "--", "P"],
        &["review", "--base", "main"],
        &["A", "B", "C"],
    ] {
        assert_eq!(exit_code(line), 2, "{line:?}");
    }
    let text = parsed(&["review"]).unwrap_err().to_string();
    assert!(
        text.contains("not supported by turnlane exec yet"),
        "{text}"
    );
    assert!(text.contains("Usage: turnlane exec"), "{text}");
}

#[test]
fn two_dashes_end_the_options() {
    let prompt = Some("--json".to_owned());
    let new = wish(&["--", "--json"]);
    assert_eq!(
        new.what,
        Wanted::New {
            prompt: prompt.clone()
        }
    );
    let prompt_is_word = wish(&["--", "resume"]).what;
    assert_eq!(
        prompt_is_word,
        Wanted::New {
            prompt: Some("resume".to_owned())
        }
    );
    let which = Which::Named("ID".to_owned());
    assert_eq!(
        wish(&["resume", "ID", "--", "--json"]).what,
        Wanted::Resume { which, prompt }
    );
}
