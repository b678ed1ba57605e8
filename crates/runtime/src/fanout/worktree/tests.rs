//! Worktrees in real repositories, hostile ones included.

use std::fs;

use turnlane_process::{Begin, ContainmentKind, Options};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

/// Runs a script of a test in a directory.
async fn shell(directory: &Path, script: &str) -> String {
    let spec = ProcessSpec::shell(script)
        .current_dir(directory)
        .env("HOME", directory.as_os_str())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b");
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert!(output.status.success(), "{script}: {}", output.stderr_tail);
    String::from_utf8(output.stdout).unwrap()
}

struct Place {
    folder: tempfile::TempDir,
    repository: Repository,
    base: String,
}

impl Place {
    async fn new(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a repo");
        fs::create_dir(&root).unwrap();
        let prepare =
            "git init -q . && echo one > a && echo two > b && git add . && git commit -qm 1";
        shell(&root, &format!("{prepare}\n{more}")).await;
        let processes = ProcessService::start(Options {
            containment: Some(ContainmentKind::Group),
            begin: Begin::WhenNeeded,
            ..Options::default()
        });
        let repository = Repository::find(&processes.unwrap(), &root).await.unwrap();
        let base = repository.head().await.unwrap();
        Self {
            folder,
            repository,
            base,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("a repo")
    }

    fn plan(&self, item_id: &str, first_attempt: u32) -> WorktreePlan {
        let item = WorktreeItem {
            job_id: "j1",
            item_id,
            first_attempt,
            base: &self.base,
        };
        let dir = self.folder.path().join("trees");
        plan_worktree(&dir, &self.folder.path().join("home"), item).unwrap()
    }
}

#[test]
fn names_are_made_of_hashes() {
    let item = |job_id, item_id| WorktreeItem {
        job_id,
        item_id,
        first_attempt: 1,
        base: "c",
    };
    let plan = |item| plan_worktree(Path::new("/trees"), Path::new("/home/t"), item).unwrap();
    let odd = plan(item("0193-a", "../x\n"));
    let name = odd.path.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit()));
    assert!(odd.path.starts_with("/trees/0193-a"));
    assert_eq!(odd.branch.len(), "fanout//".len() + 8 + 16);
    assert_ne!(plan(item("0193-a", "A")), plan(item("0193-a", "a")));
    assert_eq!(plan(item("../up", "a")).path.components().count(), 4);
    let inside = plan_worktree(Path::new("/home/t/w"), Path::new("/home/t"), item("j", "i"));
    assert!(matches!(inside, Err(WorktreeError::InsideHome(_))));
}

#[test]
fn files_of_several_items_are_found() {
    let files = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let (one, two) = (files(&["a", "b"]), files(&["b", "c"]));
    let shared = shared_files([("row-1", &one[..]), ("row-2", &two[..])]);
    assert_eq!(
        shared.into_iter().collect::<Vec<_>>(),
        [("b", vec!["row-1", "row-2"])]
    );
}

#[tokio::test]
async fn a_tree_has_its_branch_and_leaves_the_folder_alone() {
    let place = Place::new("echo edited >> a").await;
    let plan = place.plan("row-1", 1);
    place.repository.make(&plan).await.unwrap();
    place.repository.make(&plan).await.unwrap();
    assert_eq!(fs::read_to_string(plan.path.join("a")).unwrap(), "one\n");
    let branch = shell(&plan.path, "git branch --show-current").await;
    assert_eq!(branch.trim(), plan.branch);
    assert_eq!(
        shell(&place.root(), "git status --porcelain").await,
        " M a\n"
    );
    let state = place.repository.inspect(&plan).await.unwrap();
    assert!(state.is_clean(), "{state:?}");
    let removed = place
        .repository
        .remove(&plan, RemoveForce::Off)
        .await
        .unwrap();
    assert_eq!((removed, plan.path.exists()), (Removed::Yes, false));
    assert_eq!(
        shell(&place.root(), "git branch --list 'fanout/*'").await,
        ""
    );
    let again = place
        .repository
        .remove(&plan, RemoveForce::Off)
        .await
        .unwrap();
    assert_eq!(again, Removed::Yes);
}

#[tokio::test]
async fn a_tree_with_work_stays() {
    let place = Place::new("true").await;
    let plan = place.plan("row-1", 1);
    place.repository.make(&plan).await.unwrap();
    shell(
        &plan.path,
        "echo x >> a && git commit -qam 2 && rm b && echo n > 'new é'",
    )
    .await;
    let state = place.repository.inspect(&plan).await.unwrap();
    assert_eq!(state.changed_files, ["a", "b", "new é"]);
    assert!(state.dirty && state.head != place.base);
    let stored = state.to_stored();
    let stored: serde_json::Value = serde_json::from_str(stored.as_str()).unwrap();
    assert_eq!(stored["branch"], plan.branch);
    assert_eq!(stored["changedFiles"][1], "b");
    let kept = place
        .repository
        .remove(&plan, RemoveForce::Off)
        .await
        .unwrap();
    assert_eq!((kept, plan.path.exists()), (Removed::HasWork, true));
    let gone = place
        .repository
        .remove(&plan, RemoveForce::On)
        .await
        .unwrap();
    assert_eq!((gone, plan.path.exists()), (Removed::Yes, false));
    let tip = shell(&place.root(), &format!("git rev-parse {}", plan.branch)).await;
    assert_eq!(tip.trim(), state.head, "commits stay on their branch");
}

#[tokio::test]
async fn a_retry_has_a_tree_of_its_own() {
    let place = Place::new("true").await;
    let (first, second) = (place.plan("row-1", 1), place.plan("row-1", 2));
    place.repository.make(&first).await.unwrap();
    shell(&first.path, "echo x >> a").await;
    place.repository.make(&second).await.unwrap();
    assert_eq!(fs::read_to_string(second.path.join("a")).unwrap(), "one\n");
    assert_eq!(
        fs::read_to_string(first.path.join("a")).unwrap(),
        "one\nx\n"
    );
}

#[tokio::test]
async fn a_tree_that_was_half_made_is_made_again() {
    let place = Place::new("true").await;
    let plan = place.plan("row-1", 1);
    place.repository.make(&plan).await.unwrap();
    fs::remove_file(plan.path.join("a")).unwrap();
    let lock = shell(&plan.path, "git rev-parse --absolute-git-dir").await;
    fs::write(Path::new(lock.trim()).join("locked"), "initializing\n").unwrap();
    place.repository.make(&plan).await.unwrap();
    assert!(place.repository.inspect(&plan).await.unwrap().is_clean());
    assert!(plan.path.join("a").exists());
}

#[tokio::test]
async fn a_repository_runs_no_program() {
    let hostile = "ran=\"$PWD/../ran\"
        for hook in post-checkout reference-transaction post-index-change; do
            printf '#!/bin/sh\\ntouch \"%s\"\\n' \"$ran\" > .git/hooks/$hook && chmod +x .git/hooks/$hook
        done
        echo '* filter=f diff=d' > .git/info/attributes
        git config filter.f.smudge \"touch '$ran'; cat\" && git config filter.f.clean \"touch '$ran'; cat\"
        git config filter.f.required true && git config diff.d.command \"touch '$ran'\"
        git config diff.d.textconv \"touch '$ran'; cat\" && git config core.fsmonitor \"touch '$ran'\"";
    let place = Place::new(hostile).await;
    let ran = place.folder.path().join("ran");
    // Preparing the repository may have run some of them.
    drop(fs::remove_file(&ran));
    let plan = place.plan("row-1", 1);
    place.repository.make(&plan).await.unwrap();
    fs::write(plan.path.join("a"), "changed\n").unwrap();
    fs::write(plan.path.join("c"), "new\n").unwrap();
    let state = place.repository.inspect(&plan).await.unwrap();
    assert_eq!(state.changed_files, ["a", "c"]);
    place
        .repository
        .remove(&plan, RemoveForce::On)
        .await
        .unwrap();
    assert!(!ran.exists(), "a program of the repository ran");
}

#[tokio::test]
async fn a_directory_without_a_commit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let processes = ProcessService::start(Options {
        containment: Some(ContainmentKind::Group),
        begin: Begin::WhenNeeded,
        ..Options::default()
    });
    let processes = processes.unwrap();
    let none = Repository::find(&processes, folder.path()).await;
    assert!(
        matches!(none, Err(WorktreeError::NoRepository(_))),
        "{none:?}"
    );
    shell(folder.path(), "git init -q .").await;
    let unborn = Repository::find(&processes, folder.path()).await.unwrap();
    assert!(matches!(unborn.head().await, Err(WorktreeError::NoCommit)));
}
