//! Links that are put in between judging and writing.
//!
//! The invariant here: nothing appears outside, whatever is swapped and whenever.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::RenameFlags;

use super::*;

/// A swap during the question: the folder `sub` becomes a link to the outside.
async fn swapped(patch: &str, swap: impl FnOnce(&Path, &Path) + Send + 'static) -> Stage {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    stage.write("sub/a", "one\n");
    let (cwd, outside) = (stage.cwd.clone(), stage.outside.clone());
    let work = move || swap(&cwd, &outside);
    stage.answer(Answer::After(
        Box::new(work),
        Decided::new(Decision::Accept),
    ));
    let done = stage.patch(patch).await.unwrap();
    assert!(!done.success);
    assert!(
        done.text
            .starts_with("apply_patch failed: Failed to write "),
        "{}",
        done.text
    );
    assert_eq!(
        stage.course(),
        ["started:inProgress", "asked", "commit", "completed:failed"]
    );
    stage
}

#[tokio::test]
async fn a_folder_that_became_a_link_is_not_followed() {
    for patch in [
        "*** Add File: sub/new\n+x",
        "*** Add File: sub/deep/new\n+x",
        "*** Update File: sub/a\n@@\n-one\n+two",
        "*** Delete File: sub/a",
        "*** Update File: sub/a\n*** Move to: sub/b\n@@\n-one\n+two",
    ] {
        let stage = swapped(patch, |cwd, outside| {
            std::fs::rename(cwd.join("sub"), cwd.join("aside")).unwrap();
            std::fs::write(outside.join("a"), "one\n").unwrap();
            symlink(outside, cwd.join("sub")).unwrap();
        })
        .await;
        assert_eq!(stage.strays(), [stage.outside.join("a")], "{patch}");
        assert_eq!(
            stage.read("../outside/a").as_deref(),
            Some("one\n"),
            "{patch}"
        );
        assert_eq!(stage.read("aside/a").as_deref(), Some("one\n"), "{patch}");
    }
}

#[tokio::test]
async fn a_file_that_became_a_link_is_not_followed() {
    let stage = swapped("*** Update File: sub/a\n@@\n-one\n+two", |cwd, outside| {
        std::fs::write(outside.join("a"), "one\n").unwrap();
        std::fs::remove_file(cwd.join("sub/a")).unwrap();
        symlink(outside.join("a"), cwd.join("sub/a")).unwrap();
    })
    .await;
    assert_eq!(stage.read("../outside/a").as_deref(), Some("one\n"));
}

#[tokio::test]
async fn a_new_file_whose_name_became_a_link_is_not_written_through_it() {
    let stage = swapped("*** Add File: sub/new\n+x", |cwd, outside| {
        symlink(outside.join("new"), cwd.join("sub/new")).unwrap();
    })
    .await;
    assert!(stage.strays().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_swapped_all_the_time_lets_nothing_out() {
    let mut stage = Stage::with(ApprovalPolicy::Never, workspace());
    stage.write("sub/keep", "x");
    let (cwd, outside) = (stage.cwd.clone(), stage.outside.clone());
    symlink(&outside, cwd.join("door")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let swapping = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // At once, so that there is always one of the two.
            let (sub, door) = (cwd.join("sub"), cwd.join("door"));
            let here = rustix::fs::CWD;
            rustix::fs::renameat_with(here, sub, here, door, RenameFlags::EXCHANGE).unwrap();
        }
    });
    for round in 0..300 {
        // Applied, refused or failed, as it happens.
        let done = stage
            .patch(&format!("*** Add File: sub/{round}/new\n+x"))
            .await;
        assert!(done.is_ok());
        assert!(stage.strays().is_empty(), "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert!(stage.strays().is_empty());
}
