//! The disk under a running job: full, or slow.

use turnlane_runtime::fanout::jobs::Owner;
use turnlane_store::fanout::{ItemState, JobState};
use turnlane_testkit::small_disk::Wanted;
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, SmallDisk, TestProcess};

use super::support::{Floor, REPORTS, report_step, reporting};
use crate::support::Home;

/// More than the reserves of the store have room for.
const ROWS: i64 = 400;

#[tokio::test]
async fn a_full_disk_records_the_report_and_pauses_the_job() {
    let wanted = Wanted {
        module: module_path!(),
        test: "a_full_disk_records_the_report_and_pauses_the_job",
        mebibytes: 48,
    };
    let Some(disk) = SmallDisk::of(wanted).await.unwrap() else {
        return;
    };
    let report = report_step(r#"{"ok":true}"#);
    let turns =
        format!("  - {{match: 'Handle 0 now', steps: [{{await: {{gate: go}}}}, {report}]}}");
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(&turns)).await;
    let job = floor
        .run(ROWS, |spec| {
            spec.instruction = "Handle {n} now".to_owned();
            spec.limits.concurrency = 1;
        })
        .await;
    floor.asks(1).await;
    disk.fill().unwrap();
    floor.world.gates.open("go");
    let paused = floor.rests(&job, JobState::Paused).await;
    assert_eq!(paused.row.reason.as_deref(), Some("store"));
    let message = paused.row.reason_message.as_deref();
    assert_eq!(message, Some("the disk is full"));
    let item = floor.item(&job, "row-1").await.item;
    assert_eq!(item.state, ItemState::Succeeded, "the report is recorded");
    // The log has room for some items more. Each that was started has its result.
    let asked = floor.asked().len();
    let succeeded = usize::try_from(paused.row.counts.succeeded).unwrap();
    assert_eq!((succeeded, paused.row.counts.failed), (asked, 0));
    floor.assert_counts(&job).await;
    disk.free().unwrap();
    // The store takes new work as soon as it has its reserve back; until then the job pauses again.
    let goes_on = async || {
        let resumed = floor.jobs.resume(&job, Owner::Detached).await;
        resumed.is_ok() && floor.asked().len() > asked
    };
    let waited = eventually("the job to go on", DEADLINE, goes_on).await;
    waited.unwrap();
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, ROWS);
    let asked = i64::try_from(floor.asked().len()).unwrap();
    assert_eq!(asked, ROWS, "no item ran twice");
    floor.stop().await;
}

/// A FIFO takes nothing until somebody reads it.
#[tokio::test]
async fn a_file_that_takes_long_holds_up_no_other_job() {
    let home = Home::new();
    let fifo = home.database().with_file_name("slow");
    let made = ProcessSpec::new("/usr/bin/env")
        .args(["mkfifo"])
        .args([&fifo]);
    let made = TestProcess::run(made, DEADLINE).await.unwrap();
    assert!(made.status.success());
    let floor = Floor::start(&home, REPORTS).await;
    let output = fifo.display().to_string();
    let slow = floor.run(2, |spec| spec.export_path = Some(output)).await;
    let counted = async || {
        let job = floor.jobs.read(&slow).await.unwrap().row;
        job.counts.succeeded == 2
    };
    eventually("the items of the job", DEADLINE, counted)
        .await
        .unwrap();
    let other = floor.run(2, |_| ()).await;
    floor.rests(&other, JobState::Succeeded).await;
    let waits = floor.jobs.read(&slow).await.unwrap().row;
    assert_eq!(waits.state, JobState::Running, "it ends behind its file");
    let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo));
    let text = text.await.unwrap().unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    let ended = floor.rests(&slow, JobState::Succeeded).await;
    assert_eq!(ended.row.export_error, None);
    floor.stop().await;
}
