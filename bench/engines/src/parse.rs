//! The speed of the reader of `codex-exec`: a gigabyte of JSONL from memory, on one core.
//!
//! The stream is that of a turn that works: commands with output, patches, calls of tools, plans,
//! messages. It is as long as a turn may reasonably be and is read again by a new reader until the
//! gigabyte is full. Beside it stands what the JSON parser alone needs for the same lines.

use std::io::Write as _;

use anyhow::ensure;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use turnlane_benchkit::goal::{self, shown};
use turnlane_benchkit::tree;
use turnlane_benchkit::{float, is_quick, now, println};
use turnlane_engine::codex_exec::Replay;

/// Bytes of one stream.
const STREAM_BYTES: usize = 32_000_000;
/// Bytes that the process service hands over at once, at most.
const PIECE_BYTES: usize = 64 * 1024;

/// A way to read a stream; it returns the number of lines or events, so that no work can be left out.
type Reader = fn(&[u8]) -> anyhow::Result<usize>;

pub(crate) fn run() -> anyhow::Result<()> {
    let stream = stream()?;
    let streams = if is_quick() { 1 } else { 32 };
    let readers: [(&str, Reader); 3] = [
        ("`serde_json`, nothing built", scan),
        ("`serde_json`, values built", build),
        ("reader of `codex-exec`", replay),
    ];
    let mut costs = [(0.0, 0.0); 3];
    for _ in 0..streams {
        for ((_, read), (wall, cpu)) in readers.iter().zip(&mut costs) {
            let (began, before) = (now(), own_seconds()?);
            std::hint::black_box(read(&stream)?);
            *wall += began.elapsed().as_secs_f64();
            *cpu += own_seconds()? - before;
        }
    }
    let megabytes = float(stream.len() * streams) / 1e6;
    println(&format!("{megabytes:.0} MB per reader.\n"));
    println("| | MB/s | MB/s of processor time |");
    println("| --- | ---: | ---: |");
    for ((what, _), (wall, cpu)) in readers.iter().zip(costs) {
        let [wall, cpu] = [megabytes / wall, megabytes / cpu].map(shown);
        println(&format!("| {what} | {wall} | {cpu} |"));
    }
    goal::head();
    let rate = megabytes / costs[2].1;
    goal::at_least("JSONL per core, MB/s", rate, 200.0);
    Ok(())
}

fn replay(stream: &[u8]) -> anyhow::Result<usize> {
    let mut replay = Replay::new();
    for piece in stream.chunks(PIECE_BYTES) {
        replay.push(piece);
    }
    let events = replay.finish();
    ensure!(events > 0, "nothing was read");
    Ok(events)
}

fn scan(stream: &[u8]) -> anyhow::Result<usize> {
    let mut lines = 0;
    for line in stream.split_inclusive(|byte| *byte == b'\n') {
        serde_json::from_slice::<IgnoredAny>(line)?;
        lines += 1;
    }
    Ok(lines)
}

fn build(stream: &[u8]) -> anyhow::Result<usize> {
    let mut members = 0;
    for line in stream.split_inclusive(|byte| *byte == b'\n') {
        let value: Value = serde_json::from_slice(line)?;
        members += value.as_object().map_or(0, serde_json::Map::len);
    }
    Ok(members)
}

/// Seconds that this program has computed, in all its threads; the others are idle here.
fn own_seconds() -> anyhow::Result<f64> {
    let me = i32::try_from(std::process::id())?;
    Ok(tree::cpu_seconds(me)?.own)
}

/// A turn of about [`STREAM_BYTES`].
fn stream() -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(STREAM_BYTES + 16_384);
    let thread = "01a1e099-a4bd-7e00-8ac9-0161f278d518";
    writeln!(
        out,
        "{}",
        json!({"type": "thread.started", "thread_id": thread})
    )?;
    writeln!(out, "{}", json!({"type": "turn.started"}))?;
    let mut number = 0_usize;
    while out.len() < STREAM_BYTES {
        for mut item in work(number) {
            item["id"] = format!("item_{number}").into();
            number += 1;
            if item["status"] == "completed" {
                let mut started = item.clone();
                started["status"] = "in_progress".into();
                started["aggregated_output"] = "".into();
                started["result"] = Value::Null;
                writeln!(out, "{}", json!({"type": "item.started", "item": started}))?;
            }
            writeln!(out, "{}", json!({"type": "item.completed", "item": item}))?;
        }
    }
    let usage = json!({
        "input_tokens": 1100, "cached_input_tokens": 840, "cache_write_input_tokens": 0,
        "output_tokens": 70, "reasoning_output_tokens": 35,
    });
    writeln!(out, "{}", json!({"type": "turn.completed", "usage": usage}))?;
    Ok(out)
}

/// The items of one step of the turn, without their ids.
fn work(number: usize) -> [Value; 6] {
    let output = "test queue::a_turn_waits_for_its_place ... ok\n\t\"quoted\" C:\\path é\n";
    let path = format!("/work/crates/engine/src/file_{number}.rs");
    let thought = "**Looking at the failure**\n\nThe second test fails because the row is gone.";
    [
        json!({"type": "reasoning", "text": format!("{thought} ({number})")}),
        json!({"type": "command_execution", "command": "/bin/bash -lc 'cargo test -p queue'",
            "aggregated_output": output.repeat(40), "exit_code": 0, "status": "completed"}),
        json!({"type": "command_execution", "command": format!("/bin/bash -lc 'ls {path}'"),
            "aggregated_output": format!("{path}\n"), "exit_code": 0, "status": "completed"}),
        json!({"type": "file_change", "changes": [{"path": path, "kind": "update"},
            {"path": "/work/README.md", "kind": "add"}], "status": "completed"}),
        json!({"type": "mcp_tool_call", "server": "docs", "tool": "search",
            "arguments": {"query": "lease", "limit": 5},
            "result": {"content": [{"type": "text", "text": output.repeat(4)}],
                "structured_content": null}, "error": null, "status": "completed"}),
        json!({"type": "agent_message", "text": format!("Step {number}: {}", output.repeat(4))}),
    ]
}
