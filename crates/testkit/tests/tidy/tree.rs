//! The files of the repository, as git lists them or, without git, as they lie there.
//!
//! Untracked files that are not ignored are included, so a rule fails before the commit and not
//! after it. Files that are not text are known by name only.

use std::path::{Path, PathBuf};

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

/// One file, its path relative to the repository and with `/`.
pub(crate) struct File {
    pub(crate) path: String,
    /// Empty for files that are not UTF-8.
    pub(crate) text: String,
}

pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    pub(crate) async fn load() -> Self {
        let paths = match listed_by_git().await {
            Some(paths) => paths,
            None => found_below(&root(), ""),
        };
        let read = |path: String| {
            let bytes = std::fs::read(root().join(&path)).ok()?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(File { path, text })
        };
        // A tracked file that was deleted and not committed is no longer part of the tree.
        let files: Vec<_> = paths.into_iter().filter_map(read).collect();
        assert!(!files.is_empty(), "the tree has no files");
        Self { files }
    }

    /// A tree of these files, for the tests of the rules.
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let file = |(path, text): (&str, &str)| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self {
            files: files.map(file).into(),
        }
    }

    /// The tree without the rules, which must name what they forbid.
    pub(crate) fn without_tidy(mut self) -> Self {
        self.files
            .retain(|file| !file.path.starts_with("crates/testkit/tests/tidy/"));
        self
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }

    /// Whether this is a file or a folder of the tree.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = |file: &File| match file.path.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        self.files.iter().any(inside)
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        let is_rust = |file: &&File| {
            Path::new(&file.path)
                .extension()
                .is_some_and(|it| it == "rs")
        };
        self.files.iter().filter(is_rust)
    }
}

/// `None` without git, or in an unpacked archive.
async fn listed_by_git() -> Option<Vec<String>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let spec = host_program("git").args(arguments).current_dir(root());
    let output = TestProcess::run(spec, DEADLINE).await.ok()?;
    let listed = String::from_utf8(output.stdout).unwrap();
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    let paths: Vec<_> = paths.map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

/// All files below `folder` but what is built there; `prefix` is its path in the tree.
fn found_below(folder: &Path, prefix: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_file() {
            paths.push(path);
        } else if !["target", ".git"].contains(&name.as_str()) {
            paths.extend(found_below(&entry.path(), &format!("{path}/")));
        }
    }
    paths
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A program of the host with the variables that cargo and git need to find their own files.
pub(crate) fn host_program(program: impl Into<std::ffi::OsString>) -> ProcessSpec {
    let names = [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
    ];
    let known = names
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    ProcessSpec::new(program).envs(known)
}

#[test]
fn a_tree_knows_its_folders() {
    let tree = Tree::of([("docs/errors.md", "")]);
    assert!(tree.contains("docs/errors.md"));
    assert!(tree.contains("docs/") && tree.contains("docs"));
    assert!(!tree.contains("doc"));
}
