//! Worktrees in real repositories, hostile ones included.

use std::fs;

use turnlane_process::{Begin, ContainmentKind, Options};
use turnlane_protocol::policy::WorkspaceWrite;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::repository::{Branch, Made, Repository};
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

fn processes() -> ProcessService {
    ProcessService::start(Options {
        containment: Some(ContainmentKind::Group),
        begin: Begin::WhenNeeded,
        ..Options::default()
    })
    .unwrap()
}

struct World {
    folder: tempfile::TempDir,
    repository: Repository,
    trees: JobTrees,
}

impl World {
    async fn new(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("a repo");
        fs::create_dir(&root).unwrap();
        let prepare =
            "git init -q . && echo one > a && echo two > b && git add . && git commit -qm 1";
        shell(&root, &format!("{prepare}\n{more}")).await;
        let repository = Repository::find(&processes(), &root).await.unwrap();
        let trees = JobTrees {
            directory: root.with_file_name("trees").display().to_string(),
            repository: root.display().to_string(),
            place: String::new(),
            base: repository.head().await.unwrap(),
        };
        Self {
            folder,
            repository,
            trees,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("a repo")
    }

    async fn make(&self, plan: &TreePlan) -> Result<(), WorktreeError> {
        match self.repository.register(plan).await? {
            Made::Before => Ok(()),
            Made::Now => self.repository.check_out(plan).await,
        }
    }

    fn plan(&self, item_id: &str, tree: u32) -> TreePlan {
        self.trees.plan("j1", item_id, tree)
    }
}

fn job_trees() -> JobTrees {
    JobTrees {
        directory: "/trees/j".to_owned(),
        repository: "/repo".to_owned(),
        place: "sub/dir".to_owned(),
        base: "c".to_owned(),
    }
}

#[test]
fn names_are_made_of_hashes() {
    let trees = job_trees();
    let odd = trees.plan("j", "../x\n", 1);
    let name = odd.path.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit()));
    assert_eq!(odd.path.parent(), Some(Path::new("/trees/j")));
    assert_eq!(odd.branch.len(), "fanout//".len() + 8 + 16);
    assert!(odd.branch.ends_with(name), "{odd:?}");
    assert_ne!(trees.plan("j", "A", 1), trees.plan("j", "a", 1));
    let again = trees.plan("j", "../x\n", 3);
    assert_eq!(again.path, odd.path.with_file_name(format!("{name}-3")));
    assert_eq!(job_directory("0193-a"), "0193-a");
    assert_eq!(job_directory("../up").len(), 16);
}

#[test]
fn a_thread_in_a_tree_keeps_its_place_and_writes_nothing_of_the_original() {
    let mut settings: Settings = serde_json::from_value(serde_json::json!({
        "model": "m", "provider": "p", "cwd": "/repo/sub/dir", "approvalPolicy": "never",
        "sandboxPolicy": {"type": "readOnly"},
        "runtimeWorkspaceRoots": ["/repo", "/else"],
    }))
    .unwrap();
    settings.sandbox_policy = SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
        writable_roots: vec!["/repo/x".to_owned(), "/repository".to_owned()],
        ..WorkspaceWrite::default()
    });
    let moved = job_trees().moved(&settings, Path::new("/trees/j/1"));
    assert_eq!(moved.cwd, "/trees/j/1/sub/dir");
    assert_eq!(moved.runtime_workspace_roots, ["/trees/j/1", "/else"]);
    let SandboxPolicy::WorkspaceWrite(limits) = &moved.sandbox_policy else {
        panic!("{moved:?}");
    };
    assert_eq!(limits.writable_roots, ["/trees/j/1/x", "/repository"]);
}

#[test]
fn the_directory_of_worktrees_follows_the_environment() {
    let dir = |variables: &[(&str, &str)]| {
        let found = |name: &str| {
            let mut variables = variables.iter();
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            Some(value.into())
        };
        default_dir(found)
    };
    let home = ("HOME", "/home/ann");
    assert_eq!(
        dir(&[home, ("XDG_DATA_HOME", "/data")]),
        Some("/data/turnlane/worktrees".into())
    );
    let usual = Some("/home/ann/.local/share/turnlane/worktrees".into());
    assert_eq!(dir(&[home]), usual);
    assert_eq!(dir(&[home, ("XDG_DATA_HOME", "relative")]), usual);
    assert_eq!(dir(&[]), None);
}

#[tokio::test]
async fn a_tree_has_its_branch_and_leaves_the_original_alone() {
    let world = World::new("echo edited >> a").await;
    let plan = world.plan("row-1", 1);
    world.make(&plan).await.unwrap();
    world.make(&plan).await.unwrap();
    assert_eq!(fs::read_to_string(plan.path.join("a")).unwrap(), "one\n");
    let branch = shell(&plan.path, "git branch --show-current").await;
    assert_eq!(branch.trim(), plan.branch);
    let status = shell(&world.root(), "git status --porcelain").await;
    assert_eq!(status, " M a\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&world.trees.directory).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
    let work = world.repository.inspect(&plan).await.unwrap();
    assert!(work.is_none(&plan), "{work:?}");
    let left = world.repository.remove(&plan).await.unwrap();
    assert_eq!((left, plan.path.exists()), (Branch::Gone, false));
    let branches = shell(&world.root(), "git branch --list 'fanout/*'").await;
    assert_eq!(branches, "");
    world.repository.remove(&plan).await.unwrap();
}

#[tokio::test]
async fn the_work_in_a_tree_is_found_and_its_commits_outlive_it() {
    let world = World::new("true").await;
    let plan = world.plan("row-1", 1);
    world.make(&plan).await.unwrap();
    let script = "echo x >> a && git commit -qam 2 && rm b && echo n > 'new é'";
    shell(&plan.path, script).await;
    let work = world.repository.inspect(&plan).await.unwrap();
    assert_eq!(work.changed_files, ["a", "b", "new é"]);
    assert_eq!(work.changed_count, 3);
    assert!(work.dirty && work.head != plan.base);
    assert!(!work.is_none(&plan));
    let left = world.repository.remove(&plan).await.unwrap();
    assert_eq!((left, plan.path.exists()), (Branch::HasCommits, false));
    let tip = shell(&world.root(), &format!("git rev-parse {}", plan.branch)).await;
    assert_eq!(tip.trim(), work.head, "commits stay on their branch");
}

#[tokio::test]
async fn a_retry_has_a_tree_of_its_own() {
    let world = World::new("true").await;
    let (first, second) = (world.plan("row-1", 1), world.plan("row-1", 2));
    world.make(&first).await.unwrap();
    shell(&first.path, "echo x >> a").await;
    world.make(&second).await.unwrap();
    assert_eq!(fs::read_to_string(second.path.join("a")).unwrap(), "one\n");
    let kept = fs::read_to_string(first.path.join("a")).unwrap();
    assert_eq!(kept, "one\nx\n");
}

#[tokio::test]
async fn a_tree_that_was_half_made_is_made_again() {
    let world = World::new("true").await;
    let plan = world.plan("row-1", 1);
    world.make(&plan).await.unwrap();
    fs::remove_file(plan.path.join("a")).unwrap();
    let tree = world.repository.tree(&plan).unwrap().unwrap();
    tree.lock(turnlane_process::LinkedTree::INITIALIZING)
        .unwrap();
    assert!(world.repository.is_initializing(&plan));
    world.make(&plan).await.unwrap();
    assert!(!world.repository.is_initializing(&plan));
    let work = world.repository.inspect(&plan).await.unwrap();
    assert!(work.is_none(&plan) && plan.path.join("a").exists());
    let half = world.plan("row-2", 1);
    assert_eq!(world.repository.register(&half).await.unwrap(), Made::Now);
    assert!(world.repository.is_initializing(&half) && !half.path.join("a").exists());
    assert_eq!(world.repository.register(&half).await.unwrap(), Made::Now);
    world.repository.check_out(&half).await.unwrap();
    assert!(!world.repository.is_initializing(&half) && half.path.join("a").exists());
    // A tree that someone deleted is made again too.
    fs::remove_dir_all(&plan.path).unwrap();
    world.make(&plan).await.unwrap();
    assert!(plan.path.join("a").exists());
}

#[tokio::test]
async fn a_tree_whose_git_file_was_rewritten_is_read_and_removed_all_the_same() {
    let world = World::new("true").await;
    let plan = world.plan("row-1", 1);
    world.make(&plan).await.unwrap();
    let own = world.folder.path().join("own");
    shell(world.folder.path(), "mkdir own && cd own && git init -q .").await;
    let ran = world.folder.path().join("ran");
    let monitor = format!("git config core.fsmonitor \"touch '{}'\"", ran.display());
    shell(&own, &monitor).await;
    let file = format!("gitdir: {}/.git\n", own.display());
    fs::write(plan.path.join(".git"), file).unwrap();
    fs::write(plan.path.join("a"), "changed\n").unwrap();
    let work = world.repository.inspect(&plan).await.unwrap();
    assert_eq!(work.changed_files, ["a"]);
    world.repository.remove(&plan).await.unwrap();
    assert!(!plan.path.exists() && !ran.exists());
    assert!(world.repository.tree(&plan).unwrap().is_none());
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
        git config diff.d.textconv \"touch '$ran'; cat\" && git config core.fsmonitor \"touch '$ran'\"
        git config core.hooksPath .git/hooks && git config gpg.program \"$ran\"";
    let world = World::new(hostile).await;
    let ran = world.folder.path().join("ran");
    // Preparing the repository may have run some of them.
    drop(fs::remove_file(&ran));
    let plan = world.plan("row-1", 1);
    world.make(&plan).await.unwrap();
    fs::write(plan.path.join("a"), "changed\n").unwrap();
    fs::write(plan.path.join("c"), "new\n").unwrap();
    let work = world.repository.inspect(&plan).await.unwrap();
    assert_eq!(work.changed_files, ["a", "c"]);
    world.repository.unlock(&plan).unwrap();
    world.repository.remove(&plan).await.unwrap();
    assert!(!ran.exists(), "a program of the repository ran");
}

#[tokio::test]
async fn a_directory_without_a_commit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let none = Repository::find(&processes(), folder.path()).await;
    let refused = none.unwrap_err().to_string();
    assert!(refused.contains("is not in a git repository"), "{refused}");
    shell(folder.path(), "git init -q .").await;
    let unborn = Repository::find(&processes(), folder.path()).await.unwrap();
    assert!(matches!(unborn.head().await, Err(WorktreeError::NoCommit)));
}

#[test]
fn a_new_tree_keeps_the_trees_before_it_that_are_not_removed() {
    let trees = job_trees();
    let (mut stored, mut numbers) = (None, Vec::new());
    for tree in [1, 2, 3] {
        let plan = trees.plan("j", "row-1", tree);
        let mut record = TreeRecord::of_item(Some(&opened(&plan, tree, stored.as_ref()))).unwrap();
        numbers.push(record.all().map(|tree| tree.tree).collect::<Vec<_>>());
        record.state = match tree {
            1 => TreeState::Kept,
            _ => TreeState::Removed,
        };
        stored = Some(record.to_stored());
    }
    assert_eq!(numbers, [vec![1], vec![2, 1], vec![3, 1]]);
    let record = TreeRecord::of_item(stored.as_ref()).unwrap();
    assert_eq!(
        record.earlier[0].branch,
        Some(trees.plan("j", "row-1", 1).branch)
    );
}
