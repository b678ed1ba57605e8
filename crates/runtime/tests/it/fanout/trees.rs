//! Worktrees of items: what is edited in them, what stays of them, what a crash leaves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
};
use turnlane_process::{Begin, ContainmentKind, ProcessService};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::input::UserInput;
use turnlane_runtime::fanout::jobs::spec::WorktreeChoice;
use turnlane_runtime::fanout::jobs::{DeleteWork, JobError, JobSpec, Jobs, JobsQuery};
use turnlane_runtime::fanout::worktree::{TreeRecord, TreeState, TreesNote, WorktreeOptions};
use turnlane_runtime::{FanoutOptions, ManualClock, Options, Runtime};
use turnlane_store::Store;
use turnlane_store::fanout::{FanoutItem, ItemState, JobState};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::support::{REPORTS, fill, reporting};
use crate::support::{Home, NOW_MS, open, scripted, settings};

/// Set in the child only: the database it serves, and the directory of the repository.
const DATABASE: &str = "TURNLANE_TREES_CRASH_DATABASE";
const PLACE: &str = "TURNLANE_TREES_CRASH_PLACE";

/// A repository, and a directory for worktrees beside it.
struct Place(PathBuf);

impl Place {
    async fn new(directory: &Path) -> Self {
        let place = Self(directory.canonicalize().unwrap());
        std::fs::create_dir(place.repository()).unwrap();
        let make = "git init -q . && mkdir sub && echo one > a && echo two > sub/b && git add . \
                    && git commit -qm 1";
        place.git(make).await;
        place
    }

    fn repository(&self) -> PathBuf {
        self.0.join("repo")
    }

    fn options(&self) -> Options {
        let processes = ProcessService::start(turnlane_process::Options {
            containment: Some(ContainmentKind::Group),
            begin: Begin::WhenNeeded,
            ..turnlane_process::Options::default()
        });
        Options {
            fanout: FanoutOptions {
                worktrees: Some(WorktreeOptions {
                    processes: processes.unwrap(),
                    dir: Some(self.0.join("trees")),
                    home: Some(self.0.join("home")),
                }),
                ..FanoutOptions::default()
            },
            ..Options::default()
        }
    }

    /// Runs a script in the repository.
    async fn git(&self, script: &str) -> String {
        let spec = ProcessSpec::shell(script)
            .current_dir(self.repository())
            .env("HOME", self.0.as_os_str())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@b")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@b");
        let output = TestProcess::run(spec, DEADLINE).await.unwrap();
        assert!(output.status.success(), "{script}: {}", output.stderr_tail);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The user's work tree is as it was committed.
    async fn assert_untouched(&self) {
        assert_eq!(self.git("git status --porcelain").await, "");
    }

    /// The branches of items, and the directories of their trees.
    async fn left(&self) -> (usize, usize) {
        let branches = self.git("git branch --list 'fanout/*'").await;
        let trees = self.git("git worktree list").await;
        (branches.lines().count(), trees.lines().count() - 1)
    }

    /// Waits until nothing works in the repository. This binary has no keeper, which would end git with
    /// the worker that started it.
    async fn is_quiet(&self) {
        let works_here = |entry: std::fs::DirEntry| {
            let cwd = std::fs::read_link(entry.path().join("cwd"));
            cwd.is_ok_and(|cwd| cwd.starts_with(&self.0))
        };
        let quiet = async || {
            let mut processes = std::fs::read_dir("/proc").unwrap().flatten();
            !processes.any(works_here)
        };
        eventually("the end of git", DEADLINE, quiet).await.unwrap();
    }

    /// A job over the repository.
    fn spec(&self, cwd: &str) -> JobSpec {
        let mut settings = settings();
        settings.cwd = self.repository().join(cwd).display().to_string();
        let mut spec = JobSpec::new("Handle {n}", "scripted", settings);
        spec.worktree = WorktreeChoice::Item;
        spec.limits.concurrency = 4;
        spec.limits.grace_ms = 0;
        spec
    }
}

/// Edits a working directory for an item.
type Edit = dyn Fn(&Path, &str) + Send + Sync;

/// An engine whose turns edit their working directory before they follow a script.
struct Editor {
    inner: turnlane_engine::scripted::Scripted,
    edit: Box<Edit>,
    /// The items and working directories of the turns, in order.
    turns: Arc<Mutex<Vec<(String, PathBuf)>>>,
}

impl Engine for Editor {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn continues(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let text = request.input.iter().find_map(|part| match part {
            UserInput::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        let text = text.unwrap_or_default();
        let item = text
            .lines()
            .find_map(|line| line.strip_prefix("Item ID: "))
            .unwrap_or("row-1")
            .to_owned();
        let cwd = PathBuf::from(&request.settings.cwd);
        assert!(cwd.is_dir(), "{} is not there", cwd.display());
        (self.edit)(&cwd, &item);
        self.turns.lock().unwrap().push((item, cwd));
        self.inner.run_turn(request, events, control)
    }

    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        self.inner.close(thread)
    }
}

/// A runtime whose items edit.
struct Shop {
    runtime: Runtime,
    jobs: Jobs,
    clock: ManualClock,
    turns: Arc<Mutex<Vec<(String, PathBuf)>>>,
}

impl Shop {
    async fn open(
        database: &Path,
        place: &Place,
        script: &str,
        edit: impl Fn(&Path, &str) + Send + Sync + 'static,
    ) -> Self {
        let clock = ManualClock::at(NOW_MS);
        let turns = Arc::default();
        let engine = Editor {
            inner: scripted(script, &clock),
            edit: Box::new(edit),
            turns: Arc::clone(&turns),
        };
        let store: Arc<dyn Store> = open(database, &clock);
        let runtime = Runtime::start(
            store,
            vec![Arc::new(engine)],
            Arc::new(clock.clone()),
            place.options(),
        );
        let runtime = runtime.await.unwrap();
        Self {
            jobs: runtime.jobs(),
            runtime,
            clock,
            turns,
        }
    }

    async fn run(&self, spec: JobSpec, rows: i64) -> String {
        let job = self.jobs.create(spec).await.unwrap();
        let store = Arc::clone(self.runtime.handle().store());
        fill(store.as_ref(), &job.row, rows).await;
        let id = job.row.made.id;
        self.jobs.start(&id).await.unwrap();
        id
    }

    async fn ends(&self, job: &str, state: JobState) {
        let ended = async || {
            self.clock.jump(1_000);
            self.jobs.read(job).await.unwrap().row.state.is_terminal()
        };
        let waited = eventually("the end of the job", DEADLINE, ended).await;
        let row = self.jobs.read(job).await.unwrap().row;
        let items = self.items(job).await;
        let errors: Vec<_> = items.iter().map(|item| &item.error).collect();
        waited.unwrap_or_else(|error| panic!("{error}: {:?} {errors:?}", row.state));
        assert_eq!(row.state, state, "{errors:?}");
    }

    async fn items(&self, job: &str) -> Vec<FanoutItem> {
        let page = self.jobs.items(job, 0, Vec::new(), 1_000).await;
        page.unwrap().items
    }

    async fn trees(&self, job: &str, item: &str) -> Vec<TreeRecord> {
        let item = self.jobs.item(job, item).await.unwrap().detail.item;
        let record = TreeRecord::of_item(item.branch.as_ref());
        record.iter().flat_map(TreeRecord::all).cloned().collect()
    }

    async fn stop(self) {
        let Self { runtime, .. } = self;
        runtime.stop(std::time::Duration::ZERO).await.unwrap();
    }
}

/// Edits for items with even numbers: a file of their own, and one that all of them change.
fn edit_even(cwd: &Path, item: &str) {
    let number: usize = item.strip_prefix("row-").unwrap().parse().unwrap();
    if number.is_multiple_of(2) {
        std::fs::write(cwd.join(item), "new\n").unwrap();
        std::fs::write(cwd.join("a"), item).unwrap();
    }
}

#[tokio::test]
async fn items_edit_in_trees_of_their_own_and_clean_trees_go() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path()).await;
    let shop = Shop::open(&home.database(), &place, REPORTS, edit_even).await;
    let mut spec = place.spec("");
    spec.limits.concurrency = 16;
    let job = shop.run(spec, 16).await;
    shop.ends(&job, JobState::Succeeded).await;
    place.assert_untouched().await;
    assert_eq!(place.left().await, (8, 8));
    let base = place.git("git rev-parse HEAD").await.trim().to_owned();
    for item in shop.items(&job).await {
        let record = TreeRecord::of_item(item.branch.as_ref()).unwrap();
        if item.seq % 2 == 0 {
            assert_eq!((record.state, record.branch), (TreeState::Removed, None));
            assert!(!Path::new(&record.path).exists());
            continue;
        }
        assert_eq!(record.state, TreeState::Kept, "{record:?}");
        let mut expected = vec!["a".to_owned(), item.item_id.clone()];
        expected.sort();
        assert_eq!(record.changed_files, expected);
        assert!(record.dirty && record.head.as_ref() == Some(&base));
        let text = std::fs::read_to_string(Path::new(&record.path).join("a"));
        assert_eq!(text.unwrap(), item.item_id);
        assert!(record.branch.unwrap().starts_with("fanout/"));
    }
    let row = shop.jobs.read(&job).await.unwrap().row;
    let note = TreesNote::of_notes(&row.import.notes);
    assert_eq!(note.kept, 8);
    let [shared] = &note.shared_files[..] else {
        panic!("{note:?}");
    };
    assert_eq!(shared.path, "a");
    let even: Vec<_> = (1..=8).map(|half| format!("row-{}", half * 2)).collect();
    assert_eq!(shared.item_ids, even);

    // A deletion names the work that it would lose, and loses nothing.
    let refused = shop.jobs.delete(&job, DeleteWork::Refuse).await;
    let Err(JobError::Unlanded(listed)) = refused else {
        panic!("{refused:?}");
    };
    let items: BTreeSet<_> = listed.iter().filter_map(|it| it.item_id.clone()).collect();
    assert_eq!(items, even.into_iter().collect());
    assert!(listed.iter().all(|it| it.changed_files == 2 && it.dirty));
    assert_eq!(place.left().await, (8, 8));
    shop.jobs.delete(&job, DeleteWork::Allow).await.unwrap();
    assert_eq!(place.left().await, (0, 0));
    assert!(!place.0.join("trees").join(&job).exists());
    shop.stop().await;
}

#[tokio::test]
async fn an_item_works_in_the_place_of_the_jobs_directory() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path()).await;
    let shop = Shop::open(&home.database(), &place, REPORTS, |cwd, _| {
        assert_eq!(std::fs::read_to_string(cwd.join("b")).unwrap(), "two\n");
    })
    .await;
    let job = shop.run(place.spec("sub"), 1).await;
    shop.ends(&job, JobState::Succeeded).await;
    let (_, cwd) = shop.turns.lock().unwrap()[0].clone();
    assert!(cwd.starts_with(place.0.join("trees").join(&job)) && cwd.ends_with("sub"));
    assert_eq!(place.left().await, (0, 0));
    shop.jobs.delete(&job, DeleteWork::Refuse).await.unwrap();
    shop.stop().await;
}

#[tokio::test]
async fn a_retry_starts_from_the_pinned_commit_and_the_tree_before_it_stays() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path()).await;
    let fails_once =
        "  - {match: 'Item ID: row-1', times: 1, steps: [{error: {kind: network, message: gone}}]}";
    let script = reporting(fails_once);
    let shop = Shop::open(&home.database(), &place, &script, |cwd, _| {
        assert_eq!(std::fs::read_to_string(cwd.join("a")).unwrap(), "one\n");
        std::fs::write(cwd.join("a"), "changed\n").unwrap();
    })
    .await;
    let job = shop.run(place.spec(""), 1).await;
    // The pinned commit counts, not the newest one.
    place.git("echo later > a && git commit -qam 2").await;
    shop.ends(&job, JobState::Succeeded).await;
    let trees = shop.trees(&job, "row-1").await;
    assert_eq!(trees.len(), 2, "{trees:?}");
    assert!(trees.iter().all(|tree| tree.state == TreeState::Kept));
    assert_eq!(
        trees.iter().map(|tree| tree.tree).collect::<Vec<_>>(),
        [2, 1]
    );
    let paths: BTreeSet<_> = trees.iter().map(|tree| tree.path.clone()).collect();
    assert_eq!(paths.len(), 2);
    let row = shop.jobs.read(&job).await.unwrap().row;
    assert_eq!(TreesNote::of_notes(&row.import.notes).kept, 2);
    let refused = shop.jobs.delete(&job, DeleteWork::Refuse).await;
    let Err(JobError::Unlanded(listed)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(listed.len(), 2);
    shop.stop().await;
}

#[tokio::test]
async fn a_tree_that_cannot_be_made_fails_its_item_and_no_turn_runs() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path()).await;
    let shop = Shop::open(&home.database(), &place, REPORTS, |_, _| {}).await;
    let job = shop.jobs.create(place.spec("")).await.unwrap();
    let store = Arc::clone(shop.runtime.handle().store());
    fill(store.as_ref(), &job.row, 2).await;
    std::fs::remove_dir_all(place.repository().join(".git")).unwrap();
    let id = job.row.made.id;
    shop.jobs.start(&id).await.unwrap();
    shop.ends(&id, JobState::FinishedWithFailures).await;
    for item in shop.items(&id).await {
        assert_eq!((item.state, item.attempt), (ItemState::Failed, 1));
        let error = item.error.unwrap();
        assert_eq!(error.kind, "worktree");
        let start = "the worktree of the item could not be made: ";
        assert!(error.message.starts_with(start), "{}", error.message);
    }
    assert!(shop.turns.lock().unwrap().is_empty());
    let row = shop.jobs.read(&id).await.unwrap().row;
    assert_eq!(TreesNote::of_notes(&row.import.notes).kept, 0);
    shop.jobs.delete(&id, DeleteWork::Refuse).await.unwrap();
    shop.stop().await;
}

#[tokio::test]
async fn a_job_whose_directory_cannot_have_worktrees_is_refused() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path()).await;
    let shop = Shop::open(&home.database(), &place, REPORTS, |_, _| {}).await;
    let refused = async |cwd: &str, part: &str| {
        let refused = shop.jobs.create(place.spec(cwd)).await.unwrap_err();
        assert_eq!(refused.reason(), Some("noWorktree"));
        let text = refused.to_string();
        assert!(text.contains(part), "{text}");
    };
    refused("..", "is not in a git repository").await;
    std::fs::create_dir(place.repository().join("unborn")).unwrap();
    place.git("git init -q unborn").await;
    refused("unborn", "the repository has no commit yet").await;
    let made = shop.jobs.list(JobsQuery::default()).await.unwrap();
    assert!(made.jobs.is_empty());
    shop.stop().await;
    for (inside, part) in [("home/w", "is inside of"), ("repo/w", "is inside of")] {
        std::fs::create_dir_all(place.0.join("home")).unwrap();
        let mut options = place.options();
        let worktrees = options.fanout.worktrees.as_mut().unwrap();
        worktrees.dir = Some(place.0.join(inside));
        let world = home.start_with(REPORTS, options).await;
        let jobs = world.handle.jobs();
        let error = jobs.create(place.spec("")).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        world.runtime.stop(std::time::Duration::ZERO).await.unwrap();
    }
}

/// Says something and then waits for ever.
const HANGS: &str = "{version: 1, fallback: [{say: first}, {await: {gate: never}}]}";

#[test]
fn an_item_that_continues_finds_its_tree_as_it_left_it() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let runtime = || {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let first = runtime();
    let (place, job, shop) = first.block_on(async {
        let place = Place::new(folder.path()).await;
        let shop = Shop::open(&home.database(), &place, HANGS, |cwd, _| {
            std::fs::write(cwd.join("half"), "done\n").unwrap();
        })
        .await;
        let job = shop.run(place.spec(""), 1).await;
        let store = Arc::clone(shop.runtime.handle().store());
        let said = async || {
            let item = shop.jobs.item(&job, "row-1").await.unwrap().detail.item;
            let (Some(thread), Some(turn)) = (item.thread, item.turn) else {
                return false;
            };
            let Some(turn) = store.turn(thread, turn).await.unwrap() else {
                return false;
            };
            let shown = store.summaries(thread, vec![turn.ord]).await.unwrap();
            let mut shown = shown.iter().map(|row| row.body.as_str());
            shown.any(|body| body.contains("agentMessage"))
        };
        eventually("the item to say something", DEADLINE, said)
            .await
            .unwrap();
        (place, job, shop)
    });
    // As a killed process: tasks and store are dropped where they stand.
    first.shutdown_background();
    drop(shop);
    runtime().block_on(async {
        let shop = Shop::open(&home.database(), &place, REPORTS, |_, _| {}).await;
        shop.ends(&job, JobState::Succeeded).await;
        let item = shop.jobs.item(&job, "row-1").await.unwrap().detail;
        assert_eq!(item.attempts.len(), 2);
        assert_eq!(item.attempts[0].thread, item.attempts[1].thread);
        let trees = shop.trees(&job, "row-1").await;
        assert_eq!(trees.len(), 1, "{trees:?}");
        assert_eq!(trees[0].changed_files, ["half"]);
        let (_, cwd) = shop.turns.lock().unwrap()[0].clone();
        assert_eq!(cwd, Path::new(&trees[0].path));
        shop.stop().await;
    });
}

const POINTS: [&str; 9] = [
    "fanout:claim:after-commit",
    "fanout:claim:before-run",
    "fanout:tree:before-make",
    "fanout:tree:registered",
    "fanout:tree:made",
    "fanout:tree:before-inspect",
    "fanout:tree:before-remove",
    "fanout:tree:removed",
    "fanout:end:before-submit",
];
const ROWS: i64 = 4;

/// Does nothing unless it is the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_runs_a_job_with_trees() {
    let (Some(database), Some(place)) = (std::env::var_os(DATABASE), std::env::var_os(PLACE))
    else {
        return;
    };
    let place = Place(place.into());
    let shop = Shop::open(Path::new(&database), &place, REPORTS, edit_even).await;
    let job = shop.run(place.spec(""), ROWS).await;
    shop.ends(&job, JobState::Succeeded).await;
    shop.stop().await;
}

#[tokio::test]
async fn after_every_crash_point_the_trees_with_work_are_left_and_no_others() {
    for point in POINTS {
        let home = Home::new();
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path()).await;
        let child = ProcessSpec::new(std::env::current_exe().unwrap())
            .args(["--exact", "fanout::trees::the_child_runs_a_job_with_trees"])
            .env(DATABASE, home.database())
            .env(PLACE, place.0.as_os_str())
            .env("TURNLANE_CRASH_AT", point);
        let output = TestProcess::run(child, DEADLINE).await.unwrap();
        assert!(!output.status.success(), "{point} was never reached");
        place.is_quiet().await;
        let shop = Shop::open(&home.database(), &place, REPORTS, edit_even).await;
        let query = JobsQuery {
            limit: 1,
            ..JobsQuery::default()
        };
        let job = shop.jobs.list(query).await.unwrap().jobs.remove(0).row;
        shop.ends(&job.made.id, JobState::Succeeded).await;
        place.assert_untouched().await;
        let mut kept = 0;
        for item in shop.items(&job.made.id).await {
            for tree in shop.trees(&job.made.id, &item.item_id).await {
                match tree.state {
                    TreeState::Removed => assert!(!Path::new(&tree.path).exists(), "{point}"),
                    TreeState::Kept => {
                        kept += 1;
                        assert_eq!(item.seq % 2, 1, "{point}: {tree:?}");
                        let own = Path::new(&tree.path).join(&item.item_id);
                        assert!(own.exists(), "{point}: {tree:?}");
                        assert_eq!(tree.error, None, "{point}");
                    }
                    other => panic!("{point}: a tree is {other:?}"),
                }
            }
        }
        // An attempt that was lost behind its edit has left its tree, and so has the next one.
        assert!(kept >= 2, "{point}: {kept}");
        assert_eq!(place.left().await, (kept, kept), "{point}");
        let deleted = shop.jobs.delete(&job.made.id, DeleteWork::Allow).await;
        deleted.unwrap();
        assert_eq!(place.left().await, (0, 0), "{point}");
        shop.stop().await;
    }
}
