//! A stray quote at the top of a large file: the rest of the file is one record.
//!
//! The import runs in a process of its own, which writes down its peak of memory and what it read.
//! The file has 200 MB, and 1 GB with `TURNLANE_TEST_FULL=1`.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use turnlane_testkit::{ProcessSpec, TestProcess};

use super::{Desk, new_job};

/// Set in the child: the directory with the file.
const DIRECTORY: &str = "TURNLANE_STRAY_QUOTE_DIRECTORY";
/// A loaded machine may write the file slowly.
const PATIENCE: Duration = Duration::from_mins(5);
/// The most memory of the importing process.
const PEAK_MAX_KIB: u64 = 100_000;
/// The most bytes of the file that the import may read: the longest row, and what is read ahead.
const READ_MAX_BYTES: u64 = 8 << 20;

const LINE: &[u8] = b"src/module.rs,review this file for mistakes\n";

fn file_bytes() -> u64 {
    let full = std::env::var_os("TURNLANE_TEST_FULL").is_some_and(|value| value == "1");
    if full { 1_000_000_000 } else { 200_000_000 }
}

/// Returns the number behind `key` in a file below `/proc/self`.
fn own(file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

/// Does nothing unless it is the child.
#[tokio::test]
async fn the_child_imports_a_file_with_a_stray_quote() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let desk = Desk::new();
    let job = desk.create(new_job("j", "Do {path}", "{}")).await;
    let path = Path::new(&directory).join("in.csv");
    let before = own("io", "rchar:");
    let outcome = desk.import_path(job, &path).await;
    let read = own("io", "rchar:") - before;
    let problems = desk.refused("j", outcome).await;
    let found = serde_json::json!({
        "peakKib": own("status", "VmHWM:"), "readBytes": read, "problems": problems,
    });
    fs::write(Path::new(&directory).join("found"), found.to_string()).unwrap();
}

#[tokio::test]
async fn a_stray_quote_at_the_top_of_a_large_file_loads_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = BufWriter::new(File::create(directory.path().join("in.csv")).unwrap());
    file.write_all(b"path,note\n\"").unwrap();
    let lines = file_bytes() / u64::try_from(LINE.len()).unwrap();
    for _ in 0..lines {
        file.write_all(LINE).unwrap();
    }
    file.flush().unwrap();
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args([
            "fanout_files::stray_quote::the_child_imports_a_file_with_a_stray_quote",
            "--exact",
        ])
        .env(DIRECTORY, directory.path())
        .env("TMPDIR", std::env::temp_dir());
    let output = TestProcess::run(child, PATIENCE).await.unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", output.stderr_tail);
    let found = fs::read(directory.path().join("found")).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    let expected = ["csv row 2 is longer than 1048576 bytes (line 2)"];
    assert_eq!(found["problems"], serde_json::json!(expected));
    assert!(found["peakKib"].as_u64().unwrap() < PEAK_MAX_KIB, "{found}");
    let read = found["readBytes"].as_u64().unwrap();
    assert!(read < READ_MAX_BYTES, "{found}");
}
