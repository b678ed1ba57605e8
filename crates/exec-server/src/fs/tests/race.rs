//! Somebody swaps a directory for a link while files are used under a policy: nothing outside is ever
//! read, written, made, copied or removed.
//!
//! The full count takes a while: `TURNLANE_TEST_FULL=1`.

use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::policy::policy;
use super::*;

const OUTSIDE: &str = "outside";

fn tries() -> usize {
    if std::env::var_os("TURNLANE_TEST_FULL").is_some() {
        100_000
    } else {
        10_000
    }
}

/// `w` may be written, nothing else touched; `w/dir` and `w/file` are ours one moment and links to
/// `out` the next.
struct Stage {
    desk: Desk,
    sandbox: Value,
}

impl Stage {
    fn new() -> Self {
        let desk = Desk::new();
        for name in ["file", "sub/file", "sub/deep/file"] {
            desk.write(&format!("w/dir/{name}"), "inside");
            desk.write(&format!("out/{name}"), OUTSIDE);
        }
        desk.write("out/only", OUTSIDE);
        desk.write("w/file", "inside");
        std::os::unix::fs::symlink(desk.path("out"), desk.path("w/dir-link")).unwrap();
        std::os::unix::fs::symlink(desk.path("out/file"), desk.path("w/file-link")).unwrap();
        let sandbox = policy(&[(&desk.path("w"), "write")]);
        Self { desk, sandbox }
    }

    /// What must never change.
    fn check(&self) {
        let mut left = Vec::new();
        for entry in walk_all(&self.desk.path("out")) {
            if entry.is_file() {
                assert_eq!(fs::read_to_string(&entry).unwrap(), OUTSIDE, "{entry:?}");
            }
            left.push(entry);
        }
        left.sort();
        let names = [
            "file",
            "only",
            "sub",
            "sub/deep",
            "sub/deep/file",
            "sub/file",
        ];
        let all: Vec<_> = names
            .iter()
            .map(|name| self.desk.path("out").join(name))
            .collect();
        assert_eq!(left, all);
        let stolen = walk_all(&self.desk.path("w"))
            .into_iter()
            .filter(|path| path.is_file() && !path.is_symlink())
            .find(|path| fs::read_to_string(path).is_ok_and(|text| text == OUTSIDE));
        assert_eq!(stolen, None);
    }

    /// One call, synchronous: the work itself and not the way to it.
    fn call(&self, method: &str, mut params: Value) -> Result<Value> {
        params["sandbox"] = self.sandbox.clone();
        let raw = serde_json::value::to_raw_value(&params).unwrap();
        let answer = answer_of(method).unwrap()(&self.desk.files.handles, &[], Some(&raw))?;
        Ok(serde_json::from_str(answer.get()).unwrap())
    }

    /// The `number`th try; whether it succeeded.
    fn attempt(&self, number: usize) -> bool {
        let at = |name: &str| json!({"path": self.desk.uri(name), "dataBase64": STANDARD.encode("inside")});
        let copy = |from: &str, to: &str| {
            json!({"sourcePath": self.desk.uri(from),
            "destinationPath": self.desk.uri(to), "recursive": true})
        };
        let result = match number % 12 {
            0 => self.call("fs/readFile", at("w/dir/file")),
            1 => self.call("fs/writeFile", at("w/dir/file")),
            2 => self.call("fs/readFile", at("w/file")),
            3 => self.call("fs/writeFile", at("w/file")),
            4 => self.call("fs/writeFile", at("w/dir/new")),
            5 => self.call("fs/remove", at("w/dir/new")),
            6 => self.call("fs/createDirectory", at("w/dir/made/more")),
            7 => self.call("fs/remove", at("w/dir/made")),
            8 => self.call("fs/copy", copy("w/dir/sub", "w/copy")),
            9 => self.call("fs/copy", copy("w/copy", "w/dir/sub")),
            10 => self.call("fs/readDirectory", at("w/dir")),
            _ => {
                let opened = self.call(
                    "fs/open",
                    json!({"handleId": "h",
                    "path": self.desk.uri("w/dir/sub/file")}),
                );
                opened.and_then(|_| {
                    let read = json!({"handleId": "h", "offset": 0, "len": 100});
                    let block = self.call("fs/readBlock", read);
                    self.call("fs/close", json!({"handleId": "h"})).unwrap();
                    block
                })
            }
        };
        let Ok(answer) = result else { return false };
        for key in ["dataBase64", "chunk"] {
            if let Some(text) = answer.get(key) {
                // A file that another name of the same moment has just emptied is ours, too.
                assert_ne!(*text, json!(STANDARD.encode(OUTSIDE)));
            }
        }
        if let Some(entries) = answer.get("entries") {
            assert!(!entries.to_string().contains("only"), "{entries}");
        }
        true
    }
}

fn walk_all(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn a_swapped_link_never_leads_outside() {
    let stage = Stage::new();
    let over = AtomicBool::new(false);
    let (mut done, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for name in ["dir", "file"] {
                    let own = stage.desk.path(&format!("w/{name}"));
                    let link = stage.desk.path(&format!("w/{name}-link"));
                    renameat_with(CWD, &own, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        // A failed try must not leave the other thread running.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..tries() {
                if stage.attempt(number) {
                    done += 1;
                } else {
                    refused += 1;
                }
                if number % 1000 == 0 {
                    stage_outside_is_whole(&stage);
                }
            }
        }));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    stage.check();
    // Both worlds were met, or nothing was shown.
    assert!(
        done > tries() / 100 && refused > tries() / 100,
        "{done} {refused}"
    );
}

/// The part of the check that the swaps do not disturb.
fn stage_outside_is_whole(stage: &Stage) {
    for name in ["file", "only", "sub/file", "sub/deep/file"] {
        assert_eq!(stage.desk.text(&format!("out/{name}")), OUTSIDE);
    }
    for name in ["new", "made", "sub/new"] {
        assert!(!stage.desk.path(&format!("out/{name}")).exists());
    }
}
