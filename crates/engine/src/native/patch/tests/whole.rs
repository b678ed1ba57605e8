//! Whole patches on disk: what they do, what they answer, and that failures leave no trace.
//!
//! The invariant here: after a failure the folder is compared as a whole, temporaries included.
//!
//! Links and places are tested beside this.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::{TempDir, tempdir};
use turnlane_protocol::item::FileUpdateKind;

use super::super::{FILE_BYTES_MAX, PatchError, Undone};
use super::{applied, plan, tree};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    files.iter().map(owned).collect()
}

#[test]
fn every_operation_is_done_and_told() {
    let folder = folder(&[
        ("changed", "a\nb\n"),
        ("gone", "x\n"),
        ("here", "1\n2\n"),
        ("plain", "same"),
        ("over", "old\n"),
        ("taken", "lost\n"),
    ]);
    let answer = applied(
        folder.path(),
        "*** Delete File: gone\n*** Update File: changed\n-b\n+B\n*** Add File: new/deep/er\n+n\n\
         *** Update File: here\n*** Move to: to/there\n@@\n-1\n+one\n\
         *** Update File: plain\n*** Move to: taken\n*** Add File: over\n+new",
    );
    assert_eq!(
        answer,
        "Success. Updated the following files:\n\
         A new/deep/er\nM changed\nM to/there\nM taken\nM over\nD gone\n"
    );
    let expected = [
        ("changed", "a\nB\n"),
        ("new/", ""),
        ("new/deep/", ""),
        ("new/deep/er", "n\n"),
        ("over", "new\n"),
        ("taken", "same"),
        ("to/", ""),
        ("to/there", "one\n2\n"),
    ];
    assert_eq!(tree(folder.path()), owned(&expected));
}

#[test]
fn the_item_lists_what_is_done() {
    let folder = folder(&[
        ("u", "a\nb\n"),
        ("d", "x\ny"),
        ("m", "1\n"),
        ("over", "old\nsame\n"),
    ]);
    let root = folder.path().canonicalize().unwrap();
    let plan = plan(
        folder.path(),
        "*** Add File: n\n+new\n*** Delete File: d\n*** Update File: u\n-b\n+B\n\
         *** Update File: m\n*** Move to: k\n*** Add File: over\n+new\n+same",
    )
    .unwrap();
    let absolute = |name: &str| root.join(name).display().to_string();
    let still = FileUpdateKind::Update { move_path: None };
    let expected = [
        (absolute("n"), FileUpdateKind::Add, "new\n"),
        (absolute("d"), FileUpdateKind::Delete, "x\ny"),
        (
            absolute("u"),
            still.clone(),
            "@@ -1,2 +1,2 @@\n a\n-b\n+B\n",
        ),
        (
            absolute("m"),
            FileUpdateKind::Update {
                move_path: Some(absolute("k")),
            },
            "",
        ),
        (
            absolute("over"),
            still,
            "@@ -1,2 +1,2 @@\n-old\n+new\n same\n",
        ),
    ];
    let listed = plan.changes().iter().map(|change| {
        assert!(change.extra.is_empty());
        (change.path.clone(), change.kind.clone(), &*change.diff)
    });
    assert_eq!(listed.collect::<Vec<_>>(), expected);
    let paths: Vec<_> = ["n", "d", "u", "k", "m", "over"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    assert_eq!(plan.paths().collect::<Vec<_>>(), paths);
}

#[test]
fn what_cannot_be_planned_is_told_and_touches_nothing() {
    let folder = folder(&[("a", "a\n"), ("b", "b\n"), ("dir/x", "")]);
    fs::write(folder.path().join("raw"), b"\xff\n").unwrap();
    let long = fs::File::create(folder.path().join("long")).unwrap();
    long.set_len(FILE_BYTES_MAX as u64 + 1).unwrap();
    for (inner, problem) in [
        (
            "*** Update File: none\n-x",
            "Failed to read none: No such file or directory (os error 2)",
        ),
        (
            "*** Update File: no/ne\n-x",
            "Failed to read no/ne: No such file or directory (os error 2)",
        ),
        (
            "*** Delete File: none",
            "Failed to read none: No such file or directory (os error 2)",
        ),
        (
            "*** Delete File: dir",
            "Failed to read dir: Is a directory (os error 21)",
        ),
        (
            "*** Add File: dir\n+x",
            "Failed to read dir: Is a directory (os error 21)",
        ),
        (
            "*** Add File: a/x\n+x",
            "Failed to read a/x: Not a directory (os error 20)",
        ),
        (
            "*** Update File: raw\n-x",
            "Failed to read raw: the file is not UTF-8",
        ),
        (
            "*** Delete File: long",
            "Failed to read long: the file is larger than 16777216 bytes",
        ),
        (
            "*** Delete File: a\n*** Add File: a\n+x",
            "invalid patch: multiple operations target a",
        ),
        (
            "*** Add File: n\n+x\n*** Add File: ./n\n+y",
            "invalid patch: multiple operations target ./n",
        ),
        (
            "*** Update File: a\n*** Move to: b\n*** Delete File: b",
            "invalid patch: multiple operations target b",
        ),
        (
            "*** Update File: a\n-a\n+A\n*** Add File: n\n+n\n*** Update File: b\n-x",
            "Failed to find expected lines in b:\nx",
        ),
    ] {
        let expected = format!("apply_patch verification failed: {problem}");
        assert_eq!(applied(folder.path(), inner), expected, "{inner:?}");
    }
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"a\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

const FOUR: &str = "*** Update File: a\n-a\n+A\n*** Delete File: b\n*** Update File: c\n-c\n+C\n\
                    *** Add File: made/for/nothing\n+n";

#[test]
fn a_failure_in_the_third_file_restores_the_first_two() {
    let folder = folder(&[("a", "a\n"), ("b", "b\n"), ("c", "c\n")]);
    let inode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().ino();
    let before = (inode("a"), inode("b"));
    let third = folder.path().join("c");
    let plan = plan(folder.path(), FOUR).unwrap();
    let error = plan.apply_watched(&mut |at| {
        if at == 2 {
            assert!(!folder.path().join("b").exists());
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"A\n");
            fs::remove_file(&third).unwrap();
        }
    });
    assert_eq!(
        error.unwrap_err().text(),
        "apply_patch failed: Failed to write c: No such file or directory (os error 2). \
         The files changed before it were restored."
    );
    assert_eq!(tree(folder.path()), owned(&[("a", "a\n"), ("b", "b\n")]));
    assert_eq!(before, (inode("a"), inode("b")));
}

#[test]
fn new_files_and_folders_of_a_failed_patch_are_removed() {
    let folder = folder(&[("a", "a\n")]);
    let inner =
        "*** Add File: x/y/n\n+n\n*** Update File: a\n*** Move to: x/z/a\n*** Add File: late\n+l";
    let plan = plan(folder.path(), inner).unwrap();
    let late = folder.path().join("late");
    let error = plan.apply_watched(&mut |at| {
        if at == 3 {
            fs::write(&late, "theirs").unwrap();
        }
    });
    let error = error.unwrap_err();
    let restored = |error: &PatchError| {
        matches!(
            error,
            PatchError::Write {
                undone: Undone::Restored,
                ..
            }
        )
    };
    assert!(restored(&error), "{error}");
    assert_eq!(
        tree(folder.path()),
        owned(&[("a", "a\n"), ("late", "theirs")])
    );
}

#[test]
fn what_could_not_be_restored_is_named() {
    let folder = folder(&[("a", "a\n"), ("b", "b\n"), ("c", "c\n")]);
    let plan = plan(folder.path(), FOUR).unwrap();
    let error = plan.apply_watched(&mut |at| {
        if at == 2 {
            // The way back of `b` is blocked by a folder of its name.
            fs::create_dir_all(folder.path().join("b/full")).unwrap();
            fs::remove_file(folder.path().join("c")).unwrap();
        }
    });
    let text = error.unwrap_err().text();
    assert!(
        text.ends_with("These files could not be restored: b"),
        "{text}"
    );
    assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"a\n");
    // The old content is still there, under its second name.
    assert!(
        tree(folder.path())
            .iter()
            .any(|(_, content)| content == "b\n")
    );
}

#[test]
fn a_file_changed_after_planning_is_not_overwritten() {
    let folder = folder(&[("a", "a\n"), ("b", "b\n"), ("c", "c\n")]);
    let plan = plan(folder.path(), FOUR).unwrap();
    fs::write(folder.path().join("c"), "theirs\n").unwrap();
    assert_eq!(
        plan.apply().unwrap_err().text(),
        "apply_patch failed: Failed to write c: the file changed after the patch was verified. \
         No files were modified."
    );
    assert_eq!(
        tree(folder.path()),
        owned(&[("a", "a\n"), ("b", "b\n"), ("c", "theirs\n")])
    );
}

#[test]
fn a_plan_is_applied_once() {
    let folder = folder(&[("a", "a\n")]);
    let plan = plan(folder.path(), "*** Update File: a\n+b").unwrap();
    plan.apply().unwrap();
    assert!(plan.apply().is_err());
    assert_eq!(tree(folder.path()), owned(&[("a", "a\nb\n")]));
}

#[test]
fn modes_are_kept_and_hard_links_keep_the_old_content() {
    let folder = folder(&[("run", "a\n"), ("secret", "s\n")]);
    let at = |name: &str| folder.path().join(name);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(at("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(at("run"), at("other")).unwrap();
    let inner = "*** Update File: run\n-a\n+b\n*** Update File: secret\n*** Move to: moved\n-s\n+t";
    assert!(applied(folder.path(), inner).starts_with("Success"));
    assert_eq!((mode(&at("run")), mode(&at("moved"))), (0o755, 0o600));
    let expected = [("moved", "t\n"), ("other", "a\n"), ("run", "b\n")];
    assert_eq!(tree(folder.path()), owned(&expected));
}

#[test]
fn a_move_to_itself_is_an_update() {
    let folder = folder(&[("a", "a\n")]);
    let answer = applied(
        folder.path(),
        "*** Update File: a\n*** Move to: ./a\n-a\n+b",
    );
    assert_eq!(answer, "Success. Updated the following files:\nM a\n");
    assert_eq!(tree(folder.path()), owned(&[("a", "b\n")]));
}
