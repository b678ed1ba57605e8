//! Links, `..`, absolute paths and swaps: nothing is written where it was not judged.
//!
//! The invariant here: each test has a folder that is inside and one that is not, and looks at
//! both.
//!
//! Asking and refusing is the engine's; here it is the judgement that counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::{TempDir, tempdir};

use super::super::{Place, Roots, resolve};
use super::{applied, plan, tree};

struct Ground {
    _folder: TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

/// `inside/` with a file `f`, and `outside/` with a file `o`.
fn ground() -> Ground {
    let folder = tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("inside"), root.join("outside"));
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(inside.join("f"), "f\n").unwrap();
    fs::write(inside.join("sub/s"), "s\n").unwrap();
    fs::write(outside.join("o"), "o\n").unwrap();
    Ground {
        _folder: folder,
        inside,
        outside,
    }
}

fn judged(ground: &Ground, inner: &str) -> Place {
    let roots = Roots::new([ground.inside.clone()]);
    plan(&ground.inside, inner)
        .unwrap()
        .place(|path| roots.judge(path))
}

#[test]
fn places_are_judged_after_resolution() {
    let ground = ground();
    let at = |name: &str| ground.inside.join(name);
    symlink(&ground.outside, at("out")).unwrap();
    symlink("../outside/o", at("file")).unwrap();
    symlink("../outside/none", at("dangling")).unwrap();
    symlink("sub", at("in")).unwrap();
    symlink("file", at("twice")).unwrap();
    let absolute = format!("*** Add File: {}/n\n+x", ground.outside.display());
    let absolute_inside = format!("*** Add File: {}/n\n+x", ground.inside.display());
    for (inner, place) in [
        ("*** Add File: n\n+x", Place::Inside),
        ("*** Add File: new/n\n+x", Place::Inside),
        ("*** Add File: in/n\n+x", Place::Inside),
        ("*** Add File: sub/../n\n+x", Place::Inside),
        ("*** Add File: ../inside/n\n+x", Place::Inside),
        ("*** Add File: new/../../inside/n\n+x", Place::Inside),
        (&absolute_inside, Place::Inside),
        ("*** Add File: ../n\n+x", Place::Outside),
        ("*** Add File: new/../../n\n+x", Place::Outside),
        ("*** Add File: ../insider/n\n+x", Place::Outside),
        (&absolute, Place::Outside),
        ("*** Add File: out/n\n+x", Place::Outside),
        ("*** Add File: out/new/n\n+x", Place::Outside),
        // Where `..` of a link is, not where it is written.
        ("*** Add File: out/../n\n+x", Place::Outside),
        ("*** Update File: file\n-o\n+x", Place::Outside),
        ("*** Update File: twice\n-o\n+x", Place::Outside),
        ("*** Add File: dangling\n+x", Place::Outside),
        ("*** Delete File: out/o", Place::Outside),
        ("*** Update File: f\n*** Move to: ../f", Place::Outside),
        ("*** Update File: out/o\n*** Move to: o", Place::Outside),
        (
            "*** Add File: n\n+x\n*** Add File: ../n\n+x",
            Place::Outside,
        ),
        ("*** Add File: .git/hooks/post-commit\n+x", Place::Outside),
        ("*** Add File: .git\n+x", Place::Outside),
        ("*** Add File: .GIT/config\n+x", Place::Outside),
        ("*** Add File: sub/.git/config\n+x", Place::Outside),
        ("*** Add File: .codex/x\n+x", Place::Outside),
        ("*** Add File: .agents/x\n+x", Place::Outside),
        ("*** Add File: .turnlane/x\n+x", Place::Outside),
        ("*** Add File: .gitignore\n+x", Place::Inside),
    ] {
        assert_eq!(judged(&ground, inner), place, "{inner:?}");
    }
    assert_eq!(tree(&ground.outside), [("o".to_owned(), "o\n".to_owned())]);
}

#[test]
fn an_update_goes_through_a_link_and_leaves_it() {
    let ground = ground();
    symlink("sub/s", ground.inside.join("link")).unwrap();
    let answer = applied(&ground.inside, "*** Update File: link\n-s\n+S");
    assert_eq!(answer, "Success. Updated the following files:\nM link\n");
    assert!(ground.inside.join("link").is_symlink());
    assert_eq!(fs::read(ground.inside.join("sub/s")).unwrap(), b"S\n");
}

#[test]
fn a_link_is_neither_removed_nor_moved() {
    let ground = ground();
    symlink("sub/s", ground.inside.join("link")).unwrap();
    let before = tree(&ground.inside);
    for (inner, said) in [
        ("*** Delete File: link", "link"),
        ("*** Delete File: link/", "link/"),
        ("*** Update File: link\n*** Move to: n", "link"),
    ] {
        let problem = format!("Failed to read {said}: is a link, not a regular file");
        let expected = format!("apply_patch verification failed: {problem}");
        assert_eq!(applied(&ground.inside, inner), expected);
    }
    assert_eq!(tree(&ground.inside), before);
}

#[test]
fn one_file_under_two_names_is_one_file() {
    let ground = ground();
    symlink("f", ground.inside.join("link")).unwrap();
    let answer = applied(
        &ground.inside,
        "*** Update File: f\n-f\n+F\n*** Update File: link\n-f\n+G",
    );
    let expected =
        "apply_patch verification failed: invalid patch: multiple operations target link";
    assert_eq!(answer, expected);
}

#[test]
fn links_in_a_circle_are_refused() {
    let ground = ground();
    symlink("b", ground.inside.join("a")).unwrap();
    symlink("a", ground.inside.join("b")).unwrap();
    let answer = applied(&ground.inside, "*** Add File: a\n+x");
    assert!(
        answer.starts_with("apply_patch verification failed: Failed to read a: "),
        "{answer}"
    );
    assert!(resolve(&ground.inside, "a/x".as_ref()).is_err());
}

#[test]
fn a_folder_swapped_for_a_link_before_the_write_makes_it_fail() {
    let ground = ground();
    fs::write(ground.outside.join("s"), "s\n").unwrap();
    for inner in [
        "*** Update File: sub/s\n-s\n+S",
        "*** Add File: sub/n\n+n",
        "*** Delete File: sub/s",
    ] {
        let plan = plan(&ground.inside, inner).unwrap();
        fs::rename(ground.inside.join("sub"), ground.inside.join("was")).unwrap();
        symlink(&ground.outside, ground.inside.join("sub")).unwrap();
        let before = (tree(&ground.inside), tree(&ground.outside));
        let text = plan.apply().unwrap_err().text();
        assert!(text.ends_with("No files were modified."), "{text}");
        assert_eq!((tree(&ground.inside), tree(&ground.outside)), before);
        fs::remove_file(ground.inside.join("sub")).unwrap();
        fs::rename(ground.inside.join("was"), ground.inside.join("sub")).unwrap();
    }
}

#[test]
fn a_new_folder_that_became_a_link_makes_the_write_fail() {
    let ground = ground();
    let plan = plan(&ground.inside, "*** Add File: new/n\n+n").unwrap();
    symlink(&ground.outside, ground.inside.join("new")).unwrap();
    assert!(plan.apply().is_err());
    assert_eq!(tree(&ground.outside).len(), 1);
}

#[test]
fn a_folder_swapped_during_the_write_leads_nobody_outside() {
    let ground = ground();
    fs::write(ground.outside.join("s"), "s\n").unwrap();
    let before = tree(&ground.outside);
    let plan = plan(&ground.inside, "*** Update File: sub/s\n-s\n+S").unwrap();
    plan.apply_watched(&mut |_| {
        fs::rename(ground.inside.join("sub"), ground.inside.join("was")).unwrap();
        symlink(&ground.outside, ground.inside.join("sub")).unwrap();
    })
    .unwrap();
    assert_eq!(tree(&ground.outside), before);
    // It went where it was judged to go: into the folder itself.
    assert_eq!(fs::read(ground.inside.join("was/s")).unwrap(), b"S\n");
}

#[test]
fn a_file_swapped_for_a_link_makes_the_write_fail() {
    let ground = ground();
    fs::write(ground.outside.join("o"), "f\n").unwrap();
    let file = ground.inside.join("f");
    for at_rename in [false, true] {
        let plan = plan(&ground.inside, "*** Update File: f\n-f\n+F").unwrap();
        let swap = || {
            fs::remove_file(&file).unwrap();
            symlink(ground.outside.join("o"), &file).unwrap();
        };
        if !at_rename {
            swap();
        }
        let done = plan.apply_watched(&mut |_| swap());
        assert!(done.is_err());
        assert!(file.is_symlink());
        assert_eq!(fs::read(ground.outside.join("o")).unwrap(), b"f\n");
        assert_eq!(tree(&ground.inside).len(), 3);
        fs::remove_file(&file).unwrap();
        fs::write(&file, "f\n").unwrap();
    }
}
