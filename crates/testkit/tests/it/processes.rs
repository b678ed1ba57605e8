//! Children that are watched, stopped, killed and started again.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::ChildStdin;
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{Error, ProcessSpec, TempHome, TestProcess};

fn start(script: &str) -> TestProcess {
    TestProcess::start(ProcessSpec::shell(script)).unwrap()
}

/// Whether a process exists and is more than an entry nobody has reaped.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the state follows the last of them.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// A `cat` that has answered once, and the stdin that keeps it alive.
async fn answering_cat(process: &mut TestProcess) -> ChildStdin {
    let mut stdin = process.take_stdin().unwrap();
    let stdout = process.take_stdout().unwrap();
    stdin.write_all(b"up\n").await.unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(stdout);
    let read = within("the echo", DEADLINE, stdout.read_line(&mut line)).await;
    read.unwrap().unwrap();
    assert_eq!(line, "up\n");
    stdin
}

#[tokio::test]
async fn a_killed_child_is_gone_and_can_be_started_again() {
    let mut cat = TestProcess::start(ProcessSpec::new("/bin/cat")).unwrap();
    let _stdin = answering_cat(&mut cat).await;
    let first = cat.pid();
    let status = cat.kill9().await.unwrap();
    assert_eq!(status.signal(), Some(9));
    assert!(!Path::new(&format!("/proc/{}", cat.pid())).exists());
    cat.restart().await.unwrap();
    assert_ne!(cat.pid(), first);
    let _stdin = answering_cat(&mut cat).await;
}

#[tokio::test]
async fn killing_twice_is_killing_once() {
    let mut process = start("exec cat");
    let first = process.kill9().await.unwrap();
    assert_eq!(process.kill9().await.unwrap(), first);
}

#[tokio::test]
async fn a_child_can_be_asked_to_end() {
    let mut process = start("trap 'exit 7' TERM; echo ready >&2; while :; do read -r _; done");
    process
        .wait_for_stderr_line(|line| line == "ready", DEADLINE)
        .await
        .unwrap();
    process.terminate().unwrap();
    assert_eq!(process.wait(DEADLINE).await.unwrap().code(), Some(7));
    assert!(matches!(process.terminate(), Err(Error::Over { .. })));
}

#[tokio::test]
async fn a_stopped_child_does_nothing_until_it_may_go_on() {
    let mut process = start("exec cat");
    let pid = process.pid().to_string();
    process.stop().unwrap();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    eventually("the stop", DEADLINE, async || state().contains(") T "))
        .await
        .unwrap();
    let mut stdin = process.take_stdin().unwrap();
    stdin.write_all(b"x").await.unwrap();
    let mut stdout = process.take_stdout().unwrap();
    let mut byte = [0; 1];
    let early = within("nothing", Duration::from_millis(20), stdout.read(&mut byte)).await;
    assert!(early.is_err(), "a stopped child answered");
    process.cont().unwrap();
    within("the byte", DEADLINE, stdout.read_exact(&mut byte))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn dropping_a_child_ends_its_whole_group() {
    let mut process = start("sleep 1000 & echo $!; wait");
    let mut grandchild = String::new();
    let mut stdout = BufReader::new(process.take_stdout().unwrap());
    stdout.read_line(&mut grandchild).await.unwrap();
    let (child, grandchild) = (process.pid().to_string(), grandchild.trim().to_owned());
    assert!(runs(&child) && runs(&grandchild));
    drop(process);
    assert!(!Path::new(&format!("/proc/{child}")).exists(), "reaped");
    let gone = async || !runs(&grandchild);
    eventually("the grandchild's end", DEADLINE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn dropping_an_ended_child_ends_what_it_left_behind() {
    let mut process = start("sleep 1000 >/dev/null 2>&1 & echo $!");
    let mut grandchild = String::new();
    let mut stdout = BufReader::new(process.take_stdout().unwrap());
    stdout.read_line(&mut grandchild).await.unwrap();
    process.wait(DEADLINE).await.unwrap();
    let grandchild = grandchild.trim().to_owned();
    assert!(runs(&grandchild), "waiting leaves the group alone");
    drop(process);
    let gone = async || !runs(&grandchild);
    eventually("the grandchild's end", DEADLINE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_wait_in_vain_shows_the_end_of_stderr() {
    let mut process = start("echo 'what went wrong' >&2; exec cat");
    process
        .wait_for_stderr_line(|line| line.contains("wrong"), DEADLINE)
        .await
        .unwrap();
    let error = process.wait(Duration::from_millis(1)).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.starts_with("waited 1ms in vain for the end of sh (pid "),
        "{text}"
    );
    assert!(
        text.ends_with("; its stderr ends with:\nwhat went wrong\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_line_that_can_no_longer_come_ends_the_wait() {
    let process = start("echo other >&2");
    let error = process
        .wait_for_stderr_line(|line| line == "this", DEADLINE)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a line on the stderr of sh cannot happen any more; its stderr ends with:\nother\n"
    );
}

#[tokio::test]
async fn a_child_that_floods_stderr_is_not_slowed_down() {
    let script = "yes | head -c 3000000 >&2; echo out; echo last >&2";
    let output = TestProcess::run(ProcessSpec::shell(script), DEADLINE)
        .await
        .unwrap();
    assert_eq!(output.stdout, b"out\n");
    assert!(output.status.success());
    assert!(output.stderr_tail.len() < 100_000);
    assert!(output.stderr_tail.ends_with("last\n"));
}

#[tokio::test]
async fn memory_is_read_while_the_child_runs() {
    let mut process = start("exec cat");
    let _stdin = answering_cat(&mut process).await;
    let (now, peak) = (
        process.rss_bytes().unwrap(),
        process.rss_peak_bytes().unwrap(),
    );
    assert!(now > 0 && now <= peak && peak < 100 << 20, "{now} {peak}");
    process.kill9().await.unwrap();
    assert!(process.rss_bytes().is_err());
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let error = TestProcess::start(ProcessSpec::new("/no/such/program")).unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.contains("start /no/such/program: No such file"),
        "{text}"
    );
}

#[tokio::test]
async fn a_child_runs_where_and_with_what_it_was_told() {
    let home = TempHome::new().unwrap();
    let folder = home.workspace().canonicalize().unwrap();
    let spec = ProcessSpec::shell("pwd; echo \"$A$B$HOME\"")
        .env("A", "1")
        .env("B", "2");
    let output = TestProcess::run(spec.current_dir(&folder), DEADLINE)
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("{}\n12\n", folder.display()));
}
