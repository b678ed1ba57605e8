//! `--worktree item`: items edit in parallel in git worktrees of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{MOCK_KEY, ProcessSpec, TestProcess, skipped};

use super::{World, ends_with, line_of, lines, report, worker_prompt};
use crate::engines::{KEY_VARIABLE, name_key_for_codex};

const RUN: [&str; 6] = [
    "run",
    "in.csv",
    "--instruction",
    "Fix {name}",
    "--worktree",
    "item",
];

impl World {
    /// Makes the working directory a repository with this many rows to work on.
    async fn with_repository(self, rows: usize) -> Self {
        self.write_rows("in.csv", rows);
        let make = "git init -q . && echo one > shared.txt && mkdir sub && echo two > sub/b.txt \
                    && echo out.csv > .gitignore && git add . && git commit -qm first";
        self.git(make).await;
        self
    }

    /// Runs a script in the working directory.
    async fn git(&self, script: &str) -> String {
        let spec = ProcessSpec::shell(script)
            .envs(self.home.env())
            .current_dir(self.home.workspace())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@b")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@b");
        let output = TestProcess::run(spec, DEADLINE).await.unwrap();
        assert!(output.status.success(), "{script}: {}", output.stderr_tail);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The branches of items, and the number of their trees.
    async fn left(&self) -> (usize, usize) {
        let branches = self.git("git branch --list 'fanout/*'").await;
        let trees = self.git("git worktree list").await;
        (branches.lines().count(), trees.lines().count() - 1)
    }

    /// What the server says of an item.
    async fn item(&self, id: &str) -> Value {
        lines(&self.fanout(&["logs", "in", id, "--json"]).await).remove(0)
    }

    fn trees(&self) -> PathBuf {
        let user = self.home.user().canonicalize().unwrap();
        user.join(".local/share/turnlane/worktrees")
    }
}

fn is_answered(request: &RecordedRequest) -> bool {
    let mut input = request.input().iter();
    input.any(|item| {
        item["type"]
            .as_str()
            .is_some_and(|it| it.ends_with("call_output"))
    })
}

/// Items with odd numbers add a file and change a common one by a patch; then everyone reports.
fn patches(request: &RecordedRequest) -> Reply {
    let item = line_of(&worker_prompt(request).unwrap(), "Item ID: row-");
    let is_odd = item.parse::<usize>().unwrap() % 2 == 1;
    if is_odd && !is_answered(request) {
        let patch = format!(
            "*** Begin Patch\n*** Add File: new-{item}.txt\n+made\n*** Update File: shared.txt\n@@\n\
             -one\n+by {item}\n*** End Patch\n"
        );
        return Reply::custom_tool_call("apply_patch", &patch);
    }
    Reply::of([report(request)])
}

#[tokio::test]
async fn items_patch_the_same_file_in_parallel_and_the_users_directory_stays() {
    let world = World::new(patches).await.with_repository(6).await;
    let arguments = ["-s", "workspace-write", "-j", "6", "-o", "out.csv"];
    let ran = world.fanout(&[&RUN[..], &arguments].concat()).await;
    ends_with(&ran, 0);
    assert_eq!(world.git("git status --porcelain").await, "");
    assert_eq!(world.git("cat shared.txt").await, "one\n");
    assert_eq!(world.left().await, (3, 3));
    let said = &ran.stderr_tail;
    assert!(said.contains("3 worktrees have work in them"), "{said}");
    let shared = "several items changed the same files:\n  shared.txt: row-1, row-3, row-5";
    assert!(said.contains(shared), "{said}");

    for number in 1..=6 {
        let item = world.item(&format!("row-{number}")).await;
        let tree = &item["worktrees"][0];
        if number % 2 == 0 {
            assert_eq!(
                (&item["branch"], &tree["state"]),
                (&Value::Null, &json!("removed"))
            );
            continue;
        }
        let path = Path::new(tree["path"].as_str().unwrap());
        assert!(path.starts_with(world.trees()), "{tree}");
        let text = std::fs::read_to_string(path.join("shared.txt")).unwrap();
        assert_eq!(text, format!("by {number}\n"));
        let changed = json!([format!("new-{number}.txt"), "shared.txt"]);
        assert_eq!(tree["changedFiles"], changed);
        assert_eq!(
            (&tree["dirty"], &tree["state"]),
            (&json!(true), &json!("kept"))
        );
        assert_eq!(tree["branch"], item["branch"]);
    }

    // The commands of the documentation.
    let item = world.item("row-1").await;
    let branch = item["branch"].as_str().unwrap();
    let tree = item["worktrees"][0]["path"].as_str().unwrap();
    let land = format!(
        "git -C '{tree}' add -A && git -C '{tree}' commit -qm 'fix' && git merge -q {branch}"
    );
    world.git(&land).await;
    assert_eq!(world.git("cat shared.txt").await, "by 1\n");
    let other = world.item("row-3").await["worktrees"][0]["path"].clone();
    let other = other.as_str().unwrap();
    let patch = format!(
        "git -C '{other}' add -A && git -C '{other}' diff --cached HEAD -- new-3.txt | git apply"
    );
    world.git(&patch).await;
    assert_eq!(world.git("cat new-3.txt").await, "made\n");

    let shown = world.fanout(&["show", "in"]).await;
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        text.contains("shared   shared.txt: row-1, row-3, row-5"),
        "{text}"
    );
    let logs = world.fanout(&["logs", "in", "row-3"]).await;
    let text = String::from_utf8(logs.stdout).unwrap();
    assert!(
        text.contains("(uncommitted changes)\nbranch   fanout/"),
        "{text}"
    );
    assert!(text.contains("changed  new-3.txt"), "{text}");
    let wide = world.fanout(&["export", "in", "-o", "-", "--wide"]).await;
    let wide = String::from_utf8(wide.stdout).unwrap();
    assert!(wide.lines().next().unwrap().ends_with(",branch"), "{wide}");
    assert!(wide.lines().nth(1).unwrap().ends_with(branch), "{wide}");

    let refused = world.fanout(&["rm", "in"]).await;
    ends_with(&refused, 1);
    let said = &refused.stderr_tail;
    assert!(
        said.contains("3 worktrees of the job have work in them"),
        "{said}"
    );
    assert!(
        said.contains(&format!("row-3: {other} (2 changed files)")),
        "{said}"
    );
    assert!(said.contains(&format!("row-1: {tree} (commits)")), "{said}");
    ends_with(&world.fanout(&["rm", "in", "--force"]).await, 0);
    // The branch with the commit stays.
    assert_eq!(world.left().await, (1, 0));
    assert_eq!(std::fs::read_dir(world.trees()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_without_a_repository_or_commit_is_refused_before_anything_starts() {
    let world = World::new(patches).await;
    world.write_rows("in.csv", 1);
    let ran = world.fanout(&RUN).await;
    ends_with(&ran, 2);
    let said = &ran.stderr_tail;
    assert!(
        said.contains("a worktree per item is not possible"),
        "{said}"
    );
    assert!(said.contains("is not in a git repository"), "{said}");
    world.git("git init -q .").await;
    let ran = world.fanout(&RUN).await;
    ends_with(&ran, 2);
    assert!(ran.stderr_tail.contains("the repository has no commit yet"));
    let bare = world.home.path().join("bin");
    std::fs::create_dir(&bare).unwrap();
    let spec = world
        .spec(&["fanout"])
        .args(RUN)
        .env("PATH", bare.as_os_str());
    let ran = crate::run(spec).await;
    ends_with(&ran, 2);
    assert!(
        ran.stderr_tail.contains("there is no program git"),
        "{}",
        ran.stderr_tail
    );
    assert!(world.mock.requests().is_empty());
    assert!(lines(&world.fanout(&["list", "--json"]).await).is_empty());
}

#[tokio::test]
async fn a_run_in_trees_and_a_run_without_them_are_two_jobs() {
    let world = World::new(|request| Reply::of([report(request)])).await;
    let world = world.with_repository(1).await;
    ends_with(&world.fanout(&RUN).await, 0);
    ends_with(&world.fanout(&RUN[..4]).await, 0);
    let jobs = lines(&world.fanout(&["list", "--json"]).await);
    let kinds: Vec<_> = jobs
        .iter()
        .map(|job| &job["settings"]["worktree"])
        .collect();
    assert_eq!(kinds, ["none", "item"]);
    assert!(jobs[0]["worktrees"].is_null() && jobs[1]["worktrees"].is_object());
}

#[tokio::test]
async fn a_sandboxed_command_writes_its_tree_and_neither_the_original_nor_its_git_directory() {
    if !crate::codex::sandbox_is_complete().await {
        return skipped("commands in worktrees: see `turnlane doctor`");
    }
    let world = World::new(|request| {
        if is_answered(request) {
            return Reply::of([report(request)]);
        }
        let original = worker_prompt(request).unwrap();
        let original = line_of(&original, "Fix ");
        let cmd = format!(
            "echo in > sub/in; echo out > '{original}/out' || echo original-$((40 + 2)); \
             git add -A 2>/dev/null || echo git-$((40 + 3))"
        );
        Reply::of([Item::function_call("exec_command", json!({"cmd": cmd})).call_id("c1")])
    })
    .await;
    let world = world.with_repository(0).await;
    let original = world.path("");
    std::fs::write(
        world.path("in.csv"),
        format!("name\n{}\n", original.display()),
    )
    .unwrap();
    world.git("git commit -qam rows").await;
    let mut arguments = RUN.to_vec();
    // Temporary directories are writable otherwise, and everything here is in one.
    let closed = [
        "sandbox_mode=workspace-write",
        "sandbox_workspace_write.exclude_slash_tmp=true",
        "sandbox_workspace_write.exclude_tmpdir_env_var=true",
    ];
    for setting in closed {
        arguments.extend(["-c", setting]);
    }
    ends_with(&world.fanout(&arguments).await, 0);
    let answered = world.mock.requests().pop().unwrap().body.to_string();
    assert!(answered.contains("original-42"), "{answered}");
    assert!(answered.contains("git-43"), "{answered}");
    assert_eq!(world.git("git status --porcelain").await, "");
    let item = world.item("row-1").await;
    assert_eq!(
        item["worktrees"][0]["changedFiles"],
        json!(["sub/in"]),
        "{item}"
    );
}

/// A program `git` that hangs when it has registered the first tree and checked out nothing.
fn stopping_git(world: &World) -> PathBuf {
    let bin = world.home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let real = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\nPATH='{real}'\ncase \" $* \" in\n  *' worktree add '*)\n    git \"$@\" || exit 1\n    \
         if [ -e '{hold}' ]; then\n      touch '{reached}'\n      exec sleep 1000\n    fi;;\n  *) exec git \"$@\";;\nesac\n",
        hold = world.home.path().join("hold").display(),
        reached = world.home.path().join("reached").display(),
    );
    let program = bin.join("git");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

#[tokio::test]
async fn a_run_that_is_killed_while_git_makes_a_tree_leaves_no_tree_behind() {
    let world = World::new(patches).await.with_repository(2).await;
    let bin = stopping_git(&world);
    let hold = world.home.path().join("hold");
    std::fs::write(&hold, "").unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let arguments = ["-s", "workspace-write", "-j", "1"];
    let arguments = [&RUN[..], &arguments].concat();
    let spec = || world.spec(&["fanout"]).args(arguments.iter().copied());
    let mut process = TestProcess::start(spec().env("PATH", path)).unwrap();
    let reached = async || world.home.path().join("reached").exists();
    let waited = eventually("git to make a tree", DEADLINE, reached).await;
    waited.unwrap_or_else(|error| panic!("{error} {}", process.stderr_tail()));
    process.kill9().await.unwrap();
    std::fs::remove_file(&hold).unwrap();
    assert!(world.mock.requests().is_empty());
    ends_with(&crate::run(spec()).await, 0);
    // One tree has the work of the first row; the second row changed nothing.
    assert_eq!(world.left().await, (1, 1));
    let item = world.item("row-1").await;
    assert_eq!(item["attempt"], 2, "{item}");
    assert_eq!(item["worktrees"].as_array().unwrap().len(), 1, "{item}");
    assert_eq!(world.git("git status --porcelain").await, "");
}

#[tokio::test]
async fn codex_works_in_the_tree_of_its_item() {
    let Ok(codex) = std::env::var("TURNLANE_TEST_CODEX") else {
        return skipped("worktrees with codex: TURNLANE_TEST_CODEX does not name the Codex CLI");
    };
    let world = World::new(|request| {
        if is_answered(request) {
            return Reply::text("did it");
        }
        let item = line_of(&worker_prompt(request).unwrap(), "Item ID: ");
        let command = json!({"cmd": format!("echo made > by-{item}")});
        Reply::of([Item::function_call("exec_command", command).call_id("c1")])
    })
    .await;
    let world = world.with_repository(2).await;
    name_key_for_codex(&world.home);
    let config = world.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let program = format!("{text}\n[engine.codex]\nprogram = {}\n", json!(codex));
    std::fs::write(&config, program).unwrap();
    let arguments = ["--engine", "codex", "-s", "danger-full-access"];
    let spec = world.spec(&["fanout"]).env(KEY_VARIABLE, MOCK_KEY);
    let spec = spec.args([&RUN[..], &arguments].concat());
    ends_with(&crate::run(spec).await, 0);
    assert_eq!(world.git("git status --porcelain").await, "");
    for id in ["row-1", "row-2"] {
        let item = world.item(id).await;
        let changed = json!([format!("by-{id}")]);
        assert_eq!(item["worktrees"][0]["changedFiles"], changed, "{item}");
    }
}
