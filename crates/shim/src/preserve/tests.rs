//! Preserving in real repositories, hostile ones included.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use turnlane_process::{Begin, ContainmentKind, Options, ProcessService};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::*;

fn service() -> ProcessService {
    ProcessService::start(Options {
        containment: Some(ContainmentKind::Group),
        begin: Begin::WhenNeeded,
        ..Options::default()
    })
    .unwrap()
}

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

fn wish(cwd: &Path, unix_ms: i64) -> Wish {
    Wish {
        processes: service(),
        cwd: cwd.to_owned(),
        id: "eng-1".to_owned(),
        reason: "kill".to_owned(),
        unix_ms,
    }
}

#[tokio::test]
async fn changed_and_untracked_files_are_kept_and_nothing_else_changes() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a repo");
    fs::create_dir(&root).unwrap();
    let prepare = "git init -q . && echo one > kept && echo two > gone && echo x > .gitignore \
                   && echo y >> .gitignore && git add . && git commit -qm first \
                   && echo changed > kept && rm gone && mkdir sub && echo new > 'sub/a b' && echo z > x \
                   && echo staged > staged && git add staged \
                   && printf '#!/bin/sh\ntouch \"$0.ran\"\n' > .git/hooks/reference-transaction \
                   && chmod +x .git/hooks/reference-transaction";
    shell(&root, prepare).await;
    let state = "git status --porcelain; git rev-parse HEAD; git stash list; cksum < .git/index";
    let before = shell(&root, state).await;
    let preserved = preserve(wish(&root.join("sub"), 7), DEADLINE)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(preserved.reference, "refs/turnlane/preserve/eng-1/7");
    assert_eq!(before, shell(&root, state).await);
    let files = shell(
        &root,
        "git ls-tree -r --name-only refs/turnlane/preserve/eng-1/7",
    )
    .await;
    assert_eq!(files, ".gitignore\nkept\nstaged\nsub/a b\n");
    let kept = shell(&root, "git show refs/turnlane/preserve/eng-1/7:kept").await;
    assert_eq!(kept, "changed\n");
    let message = shell(
        &root,
        "git log -1 --format=%an:%s:%p refs/turnlane/preserve/eng-1/7",
    )
    .await;
    assert!(
        message.starts_with("turnlane:turnlane preserve eng-1 kill:"),
        "{message}"
    );
    assert!(!root.join(".git/hooks/reference-transaction.ran").exists());
}

#[tokio::test]
async fn a_clean_or_unversioned_directory_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let outside = Path::new("/proc");
    assert_eq!(preserve(wish(outside, 1), DEADLINE).await, Ok(None));
    let root = directory.path();
    shell(
        root,
        "git init -q . && echo one > kept && git add . && git commit -qm first",
    )
    .await;
    assert_eq!(preserve(wish(root, 1), DEADLINE).await, Ok(None));
}

#[tokio::test]
async fn a_repository_without_a_commit_is_preserved_without_a_parent() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    shell(root, "git init -q . && echo one > new").await;
    let preserved = preserve(wish(root, 1), DEADLINE).await.unwrap().unwrap();
    assert_eq!(preserved.files, 1);
    let parents = shell(
        root,
        "git log -1 --format=%p refs/turnlane/preserve/eng-1/1",
    )
    .await;
    assert_eq!(parents.trim(), "");
}

#[tokio::test]
async fn no_program_of_the_repository_is_run() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("w");
    fs::create_dir(&root).unwrap();
    let trap = directory.path().join("trap");
    let sprung = directory.path().join("sprung");
    fs::write(
        &trap,
        format!("#!/bin/sh\ntouch '{}'\ncat\n", sprung.display()),
    )
    .unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.display();
    let prepare = format!(
        "git init -q . && echo one > kept && git add . && git commit -qm first && echo two > kept \
         && echo new > other && echo '* filter=evil' > .gitattributes \
         && git config filter.evil.clean '{trap}' && git config filter.evil.process '{trap}' \
         && git config filter.evil.required true && git config core.fsmonitor '{trap}' \
         && git config gpg.program '{trap}' && git config commit.gpgSign true \
         && git config diff.external '{trap}' && mkdir nested && cd nested && git init -q . \
         && git config core.fsmonitor '{trap}' && echo x > y"
    );
    shell(&root, &prepare).await;
    let preserved = preserve(wish(&root, 1), DEADLINE).await.unwrap().unwrap();
    assert_eq!(preserved.left_out, Vec::<String>::new());
    assert!(!sprung.exists());
}

#[tokio::test]
async fn the_newest_refs_are_kept_and_too_much_content_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    shell(
        root,
        "git init -q . && echo one > kept && git add . && git commit -qm first",
    )
    .await;
    let sparse = fs::File::create(root.join("huge")).unwrap();
    sparse.set_len(CONTENT_BYTES_MAX + 1).unwrap();
    for round in 0..25 {
        fs::write(root.join("kept"), format!("round {round}")).unwrap();
        let preserved = preserve(wish(root, 1_000 + round), DEADLINE).await;
        assert_eq!(preserved.unwrap().unwrap().left_out, ["huge"]);
    }
    let refs = shell(root, "git for-each-ref --format='%(refname)' refs/turnlane").await;
    assert_eq!(refs.lines().count(), REFS_KEPT);
    assert!(refs.contains("/1024") && !refs.contains("/1004\n"));
}
