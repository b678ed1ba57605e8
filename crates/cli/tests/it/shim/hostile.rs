//! Random bytes on the channel: the shim answers what is a command and goes on.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{Random, TestProcess};

use super::rig::Rig;
use crate::exec::kills::{is_full, seed};

/// The longest random frame.
const FRAME_BYTES_MAX: usize = 4_000;

fn rounds() -> usize {
    if is_full() { 20_000 } else { 400 }
}

/// Bytes of one kind: noise, a broken command, or JSON that is no command.
fn garbage(random: &mut Random) -> Vec<u8> {
    let length = random.below(FRAME_BYTES_MAX);
    let commands: [&[u8]; 6] = [
        br#"{"cmd":"SendMessage","from":"a","body":7}"#,
        br#"{"cmd":"Resize","rows":-1,"cols":null}"#,
        br#"{"cmd":"Hello","version":2,"since":{"epoch":1,"seq":"x"}}"#,
        br#"{"cmd":"AnswerApproval","approval_id":"none","decision":"accept"}"#,
        br#"{"cmd":"ReorderQueue","ids":["none",{}]}"#,
        br#"{"cmd":["Kill"],"req":{"deep":[[[[[[]]]]]]}}"#,
    ];
    match random.below(4) {
        0 => {
            let byte = |_: usize| u8::try_from(random.below(256)).unwrap();
            (0..length).map(byte).collect()
        }
        1 => {
            // A command with bytes that were changed.
            let mut bytes = random.of(&commands).to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = u8::try_from(random.below(256)).unwrap();
            }
            bytes
        }
        2 => random.of(&commands).to_vec(),
        _ => vec![b'['; length],
    }
}

/// Changed bytes could be a command that ends the shim.
fn is_harmless(frame: &[u8]) -> bool {
    let ends = |name: &str| {
        let value = serde_json::from_slice::<Value>(frame).unwrap_or_default();
        value["cmd"] == name
    };
    !["Kill", "Shutdown", "Detach"].into_iter().any(ends)
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn random_frames_on_the_socket_are_answered_and_survived() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let mut random = Random::new(seed());
    eprintln!("seed {}", seed());
    for round in 0..rounds() {
        let frame = garbage(&mut random);
        if !is_harmless(&frame) {
            continue;
        }
        member.send_bytes(&frame).await;
        // Every tenth is followed by a command, which is answered whatever was before it.
        if round % 10 == 0 {
            member.send(json!({"cmd": "Ping"})).await;
            member.event("Pong").await;
        }
    }
    member.message("m", "hello").await;
    assert_eq!(member.event("Completion").await["message_id"], "m");
    member.shutdown().await;
}

#[tokio::test]
async fn a_length_that_lies_ends_the_channel_and_is_reported() {
    for length in [16 * 1_048_576 + 1, 0x8000_0000_u32, u32::MAX] {
        let rig = Rig::new();
        let mut member = rig.member(&[]);
        member.event("Ready").await;
        member
            .channel
            .write_all(&length.to_be_bytes())
            .await
            .unwrap();
        let events = member.rest().await;
        assert_eq!(events[0]["command"], "frame", "{events:?}");
        assert_eq!(events.last().unwrap()["event"], "Died");
        assert_eq!(member.exit().await.code(), Some(6));
    }
    // A frame that never becomes whole is the end of the channel.
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.channel.write_all(&[0, 0, 1, 0, b'{']).await.unwrap();
    member.hang_up();
    let code = member.exit().await.code();
    assert!(matches!(code, Some(0 | 6)), "{code:?}");
}

#[tokio::test]
async fn random_lines_on_standard_input_are_answered_and_survived() {
    let rig = Rig::new();
    let workspace = rig.home.workspace();
    let spec = crate::turnlane(&["shim", "--id", "eng-1", "--stdio"])
        .args(["--agent-type", "scripted", "--script", rig.script()])
        .args(["--cwd", workspace.to_str().unwrap()])
        .envs(rig.home.env())
        .current_dir(&workspace);
    let mut process = TestProcess::start(spec).unwrap();
    let mut input = process.take_stdin().unwrap();
    let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
    let mut random = Random::new(seed());
    for round in 0..rounds() {
        let mut line = garbage(&mut random);
        line.retain(|byte| *byte != b'\n');
        if !is_harmless(&line) {
            continue;
        }
        line.push(b'\n');
        input.write_all(&line).await.unwrap();
        if round % 10 != 0 {
            continue;
        }
        input.write_all(b"{\"cmd\":\"Ping\"}\n").await.unwrap();
        loop {
            let line = within("a line", DEADLINE, lines.next_line()).await;
            let line = line.unwrap().unwrap().unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "Pong" {
                break;
            }
        }
    }
    drop(input);
    assert_eq!(process.wait(DEADLINE).await.unwrap().code(), Some(0));
}
