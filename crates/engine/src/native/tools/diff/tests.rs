//! Diffs of several patches, file by file.
//!
//! The invariant here: a diff is compared as a whole, hashes aside.

use std::path::Path;

use super::*;
use crate::native::patch::{DiskFiles, Patch, Plan};

struct Turn {
    home: tempfile::TempDir,
    diff: TurnDiff,
}

impl Turn {
    fn new(files: &[(&str, &str)]) -> Self {
        let turn = Self {
            home: tempfile::tempdir().unwrap(),
            diff: TurnDiff::default(),
        };
        for (name, text) in files {
            std::fs::write(turn.cwd().join(name), text).unwrap();
        }
        turn
    }

    fn cwd(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap()
    }

    fn plan(&self, inner: &str) -> Plan {
        let text = format!("*** Begin Patch\n{inner}\n*** End Patch");
        let plan = Plan::make(&Patch::parse(&text).unwrap(), &DiskFiles::new(self.cwd())).unwrap();
        plan.apply().unwrap();
        plan
    }

    /// Applies a patch; the diff without its `index` lines, or `same`.
    fn apply(&mut self, inner: &str) -> String {
        let plan = self.plan(inner);
        let told = self.diff.take(&plan, &Modes::new(), &self.cwd());
        let Some(told) = told else {
            return "same".to_owned();
        };
        let lines = told.split_inclusive('\n');
        lines.filter(|line| !line.starts_with("index ")).collect()
    }
}

const UPDATED: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n";

#[test]
fn updates_of_one_file_are_one_change() {
    let mut turn = Turn::new(&[("a", "one\n")]);
    assert_eq!(
        turn.apply("*** Update File: a\n@@\n-one\n+half"),
        UPDATED.replace("two", "half")
    );
    assert_eq!(turn.apply("*** Update File: a\n@@\n-half\n+two"), UPDATED);
    assert_eq!(turn.apply("*** Update File: a\n@@\n two"), "same");
    assert_eq!(turn.apply("*** Update File: a\n@@\n-two\n+one"), "");
}

#[test]
fn files_come_and_go() {
    let mut turn = Turn::new(&[("a", "one\n"), ("empty", "")]);
    let deleted = "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n\
        @@ -1 +0,0 @@\n-one\n";
    assert_eq!(turn.apply("*** Delete File: a"), deleted);
    let added = "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n\
        @@ -0,0 +1 @@\n+x\n";
    assert_eq!(
        turn.apply("*** Add File: b\n+x"),
        format!("{deleted}{added}")
    );
    assert_eq!(turn.apply("*** Delete File: b"), deleted);
    // What comes again is compared with what it was.
    assert_eq!(turn.apply("*** Add File: a\n+two"), UPDATED);
    let gone = "diff --git a/empty b/empty\ndeleted file mode 100644\n";
    assert_eq!(
        turn.apply("*** Delete File: empty"),
        format!("{UPDATED}{gone}")
    );
}

#[test]
fn a_moved_file_is_one_file() {
    let mut turn = Turn::new(&[("a", "one\nrest\n")]);
    let renamed = "diff --git a/a b/b\nrename from a\nrename to b\n";
    assert_eq!(turn.apply("*** Update File: a\n*** Move to: b"), renamed);
    let changed = "--- a/a\n+++ b/b\n@@ -1,2 +1,2 @@\n-one\n+two\n rest\n";
    assert_eq!(
        turn.apply("*** Update File: b\n@@\n-one\n+two"),
        format!("{renamed}{changed}")
    );
    let further = format!("{renamed}{changed}")
        .replace("b/b", "b/c")
        .replace("to b", "to c");
    assert_eq!(turn.apply("*** Update File: b\n*** Move to: c"), further);
    // Home again it is an update, and then nothing.
    let home = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n+two\n rest\n";
    assert_eq!(turn.apply("*** Update File: c\n*** Move to: a"), home);
    assert_eq!(turn.apply("*** Update File: a\n@@\n-two\n+one"), "");
}

#[test]
fn a_new_file_that_is_moved_is_new_where_it_is() {
    let mut turn = Turn::new(&[]);
    turn.apply("*** Add File: a\n+x");
    let added = "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n\
        @@ -0,0 +1 @@\n+x\n";
    assert_eq!(turn.apply("*** Update File: a\n*** Move to: b"), added);
    assert_eq!(turn.apply("*** Delete File: b"), "");
}

#[test]
fn a_move_onto_a_file_changes_the_one_and_removes_the_other() {
    let mut turn = Turn::new(&[("a", "one\n"), ("b", "two\n")]);
    let told = turn.apply("*** Update File: b\n*** Move to: a");
    let gone = "diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n\
        @@ -1 +0,0 @@\n-two\n";
    assert_eq!(told, format!("{UPDATED}{gone}"));
}

#[test]
fn a_name_that_is_used_again_gets_its_past_back() {
    let mut turn = Turn::new(&[("a", "one\n")]);
    turn.apply("*** Update File: a\n*** Move to: b");
    let added = "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n\
        @@ -0,0 +1 @@\n+one\n";
    assert_eq!(
        turn.apply("*** Add File: a\n+two"),
        format!("{UPDATED}{added}")
    );
    // The other way round: a file moved to where one was deleted.
    let mut turn = Turn::new(&[("a", "one\n"), ("b", "two\n")]);
    turn.apply("*** Delete File: a");
    let gone = "diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n\
        @@ -1 +0,0 @@\n-two\n";
    let told = turn.apply("*** Update File: b\n*** Move to: a");
    assert_eq!(told, format!("{UPDATED}{gone}"));
}

#[test]
fn hashes_and_modes_are_those_of_git() {
    let turn = Turn::new(&[("a", "one\n")]);
    let plan = turn.plan("*** Update File: a\n@@\n-one\n+two");
    let path = turn.cwd().join("a");
    let modes = Modes::from([(path, FileMode::Executable)]);
    let told = TurnDiff::default()
        .take(&plan, &modes, &turn.cwd())
        .unwrap();
    // `git hash-object` of both contents.
    let index = "index 5626abf0f72e58d7a153368ba57db4c673c0e171..\
        f719efd430d52bcfc8566a43b2eb655688d38871 100755\n";
    assert!(told.contains(index), "{told}");
}

#[test]
fn paths_outside_are_whole_and_odd_ones_quoted() {
    let turn = Turn::new(&[]);
    let plan = turn.plan("*** Add File: with \"quote\n+x");
    let elsewhere = TurnDiff::default().take(&plan, &Modes::new(), Path::new("/elsewhere"));
    let path = turn.cwd().join("with \\\"quote").display().to_string();
    let expected = format!("diff --git \"a/{path}\" \"b/{path}\"\n");
    assert!(elsewhere.unwrap().starts_with(&expected));
}

#[test]
fn a_diff_that_is_too_long_names_what_it_leaves_out() {
    let mut turn = Turn::new(&[]);
    let lines = "+0123456789abcdef0123456789abcdef\n".repeat(25_000);
    let mut told = String::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        told = turn.apply(&format!("*** Add File: {name}\n{}", lines.trim_end()));
    }
    assert!(told.len() < 4 * 1024 * 1024 + 1_000, "{}", told.len());
    let last = "diff --git a/f b/f\n# left out: the diff of this turn is too large\n";
    assert!(told.ends_with(last));
}
