//! The file of an export: what is refused, what is replaced, and that no part of it is ever seen.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turnlane_runtime::fanout::export::{
    ExportError, ExportOptions, ExportedFile, LastExport, Output, Overwrite, check_output,
};
use turnlane_store::fanout::{JobRow, NewJob};
use turnlane_testkit::small_disk::Wanted;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, SmallDisk, TestProcess};

use super::{Desk, new_job};

fn output(path: &Path) -> Output {
    Output {
        path: path.to_owned(),
        input: None,
        overwrite: Overwrite::Refused,
        last: None,
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

impl Desk {
    async fn write_out(&self, job: &JobRow, path: &Path) -> Result<ExportedFile, ExportError> {
        let options = ExportOptions::default();
        self.exports()
            .export_to(job, path, options, Overwrite::Refused)
            .await
    }

    /// A job of some rows whose export goes to this path.
    async fn job_with_output(&self, path: &Path) -> JobRow {
        let job = NewJob {
            export_path: Some(path.display().to_string()),
            ..new_job("J", "x", "{}")
        };
        self.import(job, "in.csv", "a\n1\n2\n").await.unwrap()
    }
}

#[test]
fn the_input_is_never_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let input = at("in.csv");
    std::fs::write(&input, "a\n").unwrap();
    symlink("in.csv", at("symbolic.csv")).unwrap();
    std::fs::hard_link(&input, at("hard.csv")).unwrap();
    std::fs::create_dir(at("d")).unwrap();
    let same: [PathBuf; 5] = [
        input.clone(),
        at("./in.csv"),
        at("d/../in.csv"),
        at("symbolic.csv"),
        at("hard.csv"),
    ];
    for path in same {
        let output = Output {
            input: Some(input.clone()),
            overwrite: Overwrite::Allowed,
            ..output(&path)
        };
        let refused = check_output(&output).unwrap_err();
        let expected = format!("cannot write {}: it is the input file", path.display());
        assert_eq!(refused.to_string(), expected);
    }
    assert_eq!(std::fs::read(&input).unwrap(), b"a\n");
}

#[test]
fn paths_that_cannot_be_written_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("old.csv"), "old").unwrap();
    symlink("loop.csv", at("loop.csv")).unwrap();
    let refused = |path: &Path| {
        let text = check_output(&output(path)).unwrap_err().to_string();
        let prefix = format!("cannot write {}: ", path.display());
        text.strip_prefix(&prefix).unwrap().to_owned()
    };
    assert_eq!(refused(folder.path()), "it is a directory");
    assert_eq!(refused(&at("old.csv")), "the file exists");
    assert_eq!(refused(&at("none/out.csv")), "No such file or directory");
    assert_eq!(refused(&at("old.csv/out.csv")), "Not a directory");
    assert_eq!(refused(&at("loop.csv")), "too many symbolic links");
    let forced = Output {
        overwrite: Overwrite::Allowed,
        ..output(&at("old.csv"))
    };
    check_output(&forced).unwrap();
    check_output(&output(&at("new.csv"))).unwrap();
    assert_eq!(
        names(folder.path()),
        ["loop.csv", "old.csv"],
        "a check leaves nothing"
    );
    assert_eq!(std::fs::read(at("old.csv")).unwrap(), b"old");
}

#[tokio::test]
async fn a_job_replaces_its_own_file_while_nobody_has_changed_it() {
    let desk = Desk::new();
    let path = desk.files.path().join("out.csv");
    let job = desk.job_with_output(&path).await;
    let first = desk.write_out(&job, &path).await.unwrap();
    let job = desk.job("J").await;
    assert_eq!(
        (job.export_digest, job.export_error.clone()),
        (Some(first.digest), None)
    );
    assert_eq!(LastExport::of_job(&job).unwrap().path, path);
    let again = desk.write_out(&job, &path).await.unwrap();
    assert_eq!(again, first);
    std::fs::write(&path, "edited").unwrap();
    let refused = desk.write_out(&job, &path).await.unwrap_err();
    assert!(matches!(refused, ExportError::OutputExists(_)), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"edited");
    let error = desk.job("J").await.export_error.unwrap();
    assert_eq!(error, refused.to_string());
}

#[tokio::test]
async fn another_path_does_not_become_the_jobs_own() {
    let desk = Desk::new();
    let own = desk.files.path().join("own.csv");
    let other = desk.files.path().join("other.csv");
    let job = desk.job_with_output(&own).await;
    desk.write_out(&job, &other).await.unwrap();
    let job = desk.job("J").await;
    assert_eq!(job.made.export_path, Some(own.display().to_string()));
    assert_eq!(job.export_digest, None);
}

#[tokio::test]
async fn the_target_of_a_link_is_replaced_and_the_link_stays() {
    let desk = Desk::new();
    let at = |name: &str| desk.files.path().join(name);
    std::fs::create_dir(at("d")).unwrap();
    symlink("d/real.csv", at("link.csv")).unwrap();
    let job = desk.job_with_output(&at("link.csv")).await;
    desk.write_out(&job, &at("link.csv")).await.unwrap();
    assert!(at("link.csv").is_symlink());
    let text = std::fs::read_to_string(at("d/real.csv")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert_eq!(names(&at("d")), ["real.csv"]);
}

#[tokio::test]
async fn a_device_is_written_directly() {
    let desk = Desk::new();
    let job = desk.job_with_output(Path::new("/dev/null")).await;
    let written = desk.write_out(&job, Path::new("/dev/null")).await.unwrap();
    assert_eq!(written.rows, 2);
}

#[tokio::test]
async fn a_fifo_is_written_directly() {
    let desk = Desk::new();
    let path = desk.files.path().join("out.fifo");
    let made = TestProcess::run(
        ProcessSpec::new("/usr/bin/env")
            .args(["mkfifo"])
            .args([&path]),
        DEADLINE,
    );
    assert!(made.await.unwrap().status.success());
    let job = desk.job_with_output(&path).await;
    let fifo = path.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
    desk.write_out(&job, &path).await.unwrap();
    assert_eq!(reader.join().unwrap().lines().count(), 3);
    assert_eq!(names(desk.files.path()), ["in.csv", "out.fifo"]);
}

#[tokio::test]
async fn a_reader_sees_whole_files_only() {
    let desk = Desk::new();
    let path = desk.files.path().join("out.csv");
    let job = NewJob {
        export_path: Some(path.display().to_string()),
        ..new_job("J", "x", "{}")
    };
    let rows = "0123456789abcdef\n".repeat(5_000);
    let job = desk
        .import(job, "in.csv", format!("a\n{rows}"))
        .await
        .unwrap();
    desk.write_out(&job, &path).await.unwrap();
    let whole = std::fs::read(&path).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (done, path) = (Arc::clone(&done), path.clone());
        move || {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads == 0 {
                assert!(std::fs::read(&path).unwrap() == whole, "a part was read");
                reads += 1;
            }
        }
    });
    for _ in 0..10 {
        let job = desk.job("J").await;
        desk.write_out(&job, &path).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    reader.join().unwrap();
}

#[tokio::test]
async fn files_that_a_killed_export_left_are_swept() {
    let desk = Desk::new();
    let path = desk.files.path().join("out.csv");
    let job = desk.job_with_output(&path).await;
    desk.write_out(&job, &path).await.unwrap();
    // The name of a file that an export of this path makes, learnt from one that cannot be renamed.
    let left = {
        let hash = <sha2::Sha256 as sha2::Digest>::digest(b"out.csv");
        let hash: u64 = hash
            .iter()
            .take(8)
            .fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        desk.file(&format!(".turnlane-export-{hash:016x}-99-0.tmp"), "half")
    };
    let other = desk.file(".turnlane-export-of-another.tmp", "kept");
    let job = desk.job("J").await;
    desk.write_out(&job, &path).await.unwrap();
    assert!(!left.exists() && other.exists());
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_file_and_the_results() {
    let wanted = Wanted {
        module: module_path!(),
        test: "a_full_disk_leaves_the_old_file_and_the_results",
        mebibytes: 48,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let desk = Desk::new();
    let path = desk.files.path().join("out.csv");
    let rows = "0123456789abcdef\n".repeat(20_000);
    let job = NewJob {
        export_path: Some(path.display().to_string()),
        ..new_job("J", "x", "{}")
    };
    let job = desk
        .import(job, "in.csv", format!("a\n{rows}"))
        .await
        .unwrap();
    let small = desk
        .import(new_job("small", "x", "{}"), "small.csv", "a\n1\n")
        .await
        .unwrap();
    desk.write_out(&small, &desk.files.path().join("small-out.csv"))
        .await
        .unwrap();
    let first = desk.write_out(&job, &path).await.unwrap();
    let before = (names(desk.files.path()), std::fs::read(&path).unwrap());
    disk.fill().unwrap();
    // Some pages are written before the disk is full again.
    disk.free_bytes(256 * 1024).unwrap();
    let job = desk.job("J").await;
    let error = desk.write_out(&job, &path).await.unwrap_err();
    assert!(
        error.to_string().ends_with("No space left on device"),
        "{error}"
    );
    assert_eq!(
        (names(desk.files.path()), std::fs::read(&path).unwrap()),
        before
    );
    disk.free().unwrap();
    let job = desk.job("J").await;
    assert_eq!(job.total, 20_000);
    let again = desk.write_out(&job, &path).await.unwrap();
    assert_eq!(again.digest, first.digest);
}

#[tokio::test]
async fn a_full_disk_stops_an_import_that_goes_on_later() {
    let wanted = Wanted {
        module: module_path!(),
        test: "a_full_disk_stops_an_import_that_goes_on_later",
        mebibytes: 48,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let desk = Desk::new();
    let rows: Vec<String> = (0..2_000)
        .map(|row| format!("{row},{}", "x".repeat(2_000)))
        .collect();
    let path = desk.file("in.csv", format!("id,t\n{}\n", rows.join("\n")));
    let job = desk
        .create(new_job("J", "{t}", r#"{"idColumn":"id"}"#))
        .await;
    disk.fill().unwrap();
    disk.free_bytes(1 << 20).unwrap();
    let error = desk.import_path(job, &path).await.unwrap_err();
    disk.free().unwrap();
    let job = desk.job("J").await;
    assert_eq!(
        job.state,
        turnlane_store::fanout::JobState::Importing,
        "{error}"
    );
    // The store takes rows again as soon as it has its reserve back.
    let continued = async || desk.imports.resume_path(desk.job("J").await).await.is_ok();
    let waited = eventually("the rest of the import", DEADLINE, continued).await;
    waited.unwrap();
    let job = desk.job("J").await;
    assert_eq!((job.total, desk.ids(&job).await.len()), (2_000, 2_000));
}

#[tokio::test]
async fn a_read_only_directory_is_refused() {
    let wanted = Wanted {
        module: module_path!(),
        test: "a_read_only_directory_is_refused",
        mebibytes: 2,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    disk.make_read_only().await.unwrap();
    let refused = check_output(&output(&disk.path().join("out.csv"))).unwrap_err();
    assert!(
        refused.to_string().ends_with(": Read-only file system"),
        "{refused}"
    );
}
