//! Every write and every sync of a fixed script fails once, in a process of its own.
//!
//! The child is this test binary with a library preloaded that lets the n-th call fail; one child
//! goes through many n, each in a folder of its own, until a run has fewer calls than n. It writes
//! down what was acknowledged and what was refused; the parent compares that with what the
//! database holds afterwards.
//!
//! A script has acts, so that not all of it is run again for each n: an act begins with a copy of
//! the database that those before it have left where nothing failed.

mod acts;
mod disk;
pub(super) mod fanout_act;
mod notes;
mod operations;
pub(super) mod player;

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use rustix::io::Errno;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;
use crate::store::Store;

/// Set in the child: the folder of the runs.
const FOLDER: &str = "TURNLANE_FAULT_FOLDER";

/// Set in the child: what it does there, see [`Fault::task`].
const TASK: &str = "TURNLANE_FAULT_TASK";

/// How many children run at the same time.
const CHILDREN: usize = 2;

/// How long one child may take for all its runs, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// Which calls of which script fail, and how.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// `notes` or `operations`.
    script: &'static str,
    /// `writes` or `syncs`.
    calls: &'static str,
    /// See the library.
    mode: &'static str,
    errno: Errno,
    /// How a run ends: `close`, `kill`, or at once when something is refused, which is
    /// `close-when-refused` or `kill-when-refused`.
    end: &'static str,
}

impl Fault {
    /// The folder of one run, which tells the library what to do.
    fn run(self, folder: &Path, nth: u64) -> PathBuf {
        let (calls, mode, errno) = (self.calls, self.mode, self.errno.raw_os_error());
        folder.join(format!("fault.{calls}.{mode}.{errno}.{nth}"))
    }

    /// What a child does, as one text: it begins with a number.
    fn task(self, act: usize, first: u64) -> String {
        let errno = self.errno.raw_os_error();
        let words = [self.script, self.calls, self.mode, self.end];
        format!("{} {errno} {act} {first}", words.join(" "))
    }
}

/// What a run writes down for the parent.
struct Said {
    file: File,
    run: PathBuf,
    end: String,
}

impl Said {
    fn begin(run: PathBuf, end: &str) -> Self {
        fs::create_dir(&run).unwrap();
        let file = File::create(run.join("said")).unwrap();
        let end = end.to_owned();
        Self { file, run, end }
    }

    fn say(&self, line: &str) {
        writeln!(&self.file, "{line}").unwrap();
    }

    fn kill(&self) -> ! {
        self.say("KILLED");
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        unreachable!("killed")
    }

    /// Something was refused: the run may end here.
    fn refused(&self) {
        if self.end == "kill-when-refused" {
            self.kill();
        }
    }

    /// Begins with the empty database, on the disk that is kept for a loss of power as well.
    fn copy_template(&self) {
        let template = self.run.parent().unwrap().join("template/lanes.db");
        fs::copy(&template, self.run.join("lanes.db")).unwrap();
        // The open completes this ballast. Without one it would take the database for that of a worker
        // that died on a full disk.
        fs::write(self.run.join("lanes.db.ballast"), "").unwrap();
        if self.end == "kill" {
            fs::create_dir(self.run.join("disk")).unwrap();
            fs::copy(&template, self.run.join("disk/lanes.db")).unwrap();
        }
    }

    /// Opens, again if need be: at most two calls fail. Nothing that is full is ever free again.
    fn open(&self) -> SqliteStore {
        for number in 1..=3 {
            let mut options = options(&self.run, number);
            options.free_again_bytes = u64::MAX;
            options.readers = 1;
            match SqliteStore::open(options) {
                Ok(store) => {
                    self.say(&format!("OPENED {number}"));
                    return store;
                }
                Err(error) => self.say(&format!("NOT-OPENED {error:?}")),
            }
        }
        panic!("not opened, but at most two calls fail");
    }
}

/// Does nothing unless it is the child.
#[tokio::test]
async fn the_child_follows_the_script() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let task = std::env::var(TASK).unwrap();
    let words: Vec<&str> = task.split(' ').collect();
    let [script, calls, mode, end, errno, act, first] = words[..] else {
        panic!("{task}");
    };
    let act = act.parse().unwrap();
    for nth in first.parse().unwrap().. {
        let nth: u64 = nth;
        let run = Path::new(&folder).join(format!("fault.{calls}.{mode}.{errno}.{nth}"));
        let said = Said::begin(run.clone(), end);
        match script {
            "notes" => notes::script(&said, act).await,
            "operations" => operations::script(&said, act).await,
            "disk" => disk::script(&said).await,
            other => panic!("{other}"),
        }
        if end == "kill" {
            said.kill();
        }
        // Many runs would need much room.
        let _ = fs::remove_file(run.join("lanes.db.ballast"));
        said.say("DONE");
        if !run.join("fired").exists() || script == "disk" {
            break;
        }
    }
}

/// The preloaded library, or nothing when there is no C compiler.
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
async fn shim(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let compiler = ProcessSpec::new("/usr/bin/env")
        .args(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([library.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let compiled = TestProcess::run(compiler, PATIENCE).await.unwrap();
    match compiled.status.code() {
        Some(0) => Some(library),
        Some(127) => {
            eprintln!("SKIPPED: faults need gcc");
            None
        }
        _ => panic!("the shim does not compile:\n{}", compiled.stderr_tail),
    }
}

/// Makes the database that the runs begin with: an empty one, after these acts.
async fn make_template(folder: &Path, acts: Range<usize>) {
    let template = folder.join("template");
    fs::create_dir_all(&template).unwrap();
    for act in std::iter::once(None).chain(acts.map(Some)) {
        let number = 1_000 + act.map_or(0, |act| act as u128 + 1);
        let store = SqliteStore::open(options(&template, number)).unwrap();
        if let Some(act) = act {
            acts::play(act, &mut player::Player::sure(&store)).await;
        }
        Store::close(&store).await.unwrap();
    }
    fs::remove_file(template.join("lanes.db.ballast")).unwrap();
}

/// Runs a child from this n on; it ends well or is killed.
async fn child(shim: &Path, folder: &Path, fault: Fault, act: usize, first: u64) {
    let child = ProcessSpec::new(std::env::current_exe().unwrap())
        .args(["sqlite::tests::faults::the_child_follows_the_script"])
        .args(["--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(TASK, fault.task(act, first))
        // The loader splits the variable at spaces and colons, which the directory may have in its name.
        .env("LD_PRELOAD", Path::new(".").join(shim.file_name().unwrap()))
        .current_dir(shim.parent().unwrap());
    let output = TestProcess::run(child, PATIENCE).await.unwrap();
    let killed = fault.end.starts_with("kill") && output.status.code().is_none();
    assert!(
        killed || output.status.success(),
        "{fault:?} in act {act} from {first}:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        output.stderr_tail
    );
}

/// Runs and checks an act with each call failing in turn; how many there were.
async fn every_call_of(shim: PathBuf, folder: PathBuf, fault: Fault, act: usize) -> u64 {
    let before = match fault.script {
        "operations" => 0..act,
        _ => 0..0,
    };
    make_template(&folder, before).await;
    let mut known = operations::Known::default();
    let mut nth = 1;
    loop {
        child(&shim, &folder, fault, act, nth).await;
        let begun = nth;
        while let run = fault.run(&folder, nth)
            && let Ok(said) = fs::read_to_string(run.join("said"))
        {
            let context = format!("{fault:?}, act {act}, call {nth}:\n{said}");
            match fault.script {
                "notes" => notes::check(&run, fault, &said, &context).await,
                _ => operations::check(&run, (fault, act), &said, &context, &mut known).await,
            }
            let had = run.join("fired").exists();
            fs::remove_dir_all(run).unwrap();
            if !had {
                return nth - 1;
            }
            nth += 1;
        }
        assert!(nth > begun, "{fault:?}: no run from {begun} on");
    }
}

/// Runs the script with each call failing in turn.
#[expect(clippy::print_stdout, reason = "how much was tried is worth knowing")]
async fn every_call(fault: Fault, acts: Range<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let Some(shim) = shim(folder.path()).await else {
        return;
    };
    let mut running = tokio::task::JoinSet::new();
    let mut failed = 0;
    for act in acts {
        if running.len() == CHILDREN {
            failed += running.join_next().await.unwrap().unwrap();
        }
        let folder = folder.path().join(format!("act-{act}"));
        running.spawn(every_call_of(shim.clone(), folder, fault, act));
    }
    while let Some(end) = running.join_next().await {
        failed += end.unwrap();
    }
    println!("{failed} calls failed in turn: {fault:?}");
    assert!(failed > 5, "the calls are seen: {failed}");
}
