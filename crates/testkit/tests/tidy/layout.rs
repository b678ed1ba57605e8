//! One integration test binary per crate, and no test file that is not part of it.

use crate::tree::Tree;

/// Test binaries beside `tests/it/`.
const BINARIES: &[&str] = &["crates/testkit/tests/tidy.rs"];

/// Files of a runner that no `mod` line names.
pub(crate) fn forgotten_tests(tree: &Tree) -> Vec<String> {
    let forgotten = |path: &str| {
        let (folder, name) = path.strip_suffix(".rs")?.rsplit_once('/')?;
        if !format!("{folder}/").contains("/tests/it/")
            || (folder.ends_with("/it") && name == "main")
        {
            return None;
        }
        let parent = if folder.ends_with("/tests/it") {
            format!("{folder}/main.rs")
        } else {
            format!("{folder}.rs")
        };
        let named = tree.text(&parent).is_some_and(|text| names(text, name));
        (!named).then(|| format!("{path} is not a `mod` of {parent}"))
    };
    tree.rust()
        .filter_map(|file| forgotten(&file.path))
        .collect()
}

fn names(text: &str, module: &str) -> bool {
    let line = format!("mod {module};");
    text.lines()
        .any(|known| known.trim().trim_start_matches("pub(crate) ") == line)
}

/// Files that cargo would make test binaries of their own.
pub(crate) fn stray_binaries(tree: &Tree) -> Vec<String> {
    let stray = |path: &str| {
        // Only `tests/` beside `src/` makes binaries; a module in `src/` may be called tests too.
        let (_, inside) = path.strip_prefix("crates/")?.split_once('/')?;
        let inside = inside.strip_prefix("tests/")?;
        let binary = match inside.split_once('/') {
            None => true,
            Some((folder, file)) => folder != "it" && file == "main.rs",
        };
        (binary && !BINARIES.contains(&path))
            .then(|| format!("{path} is a test binary of its own; move it into `tests/it/`"))
    };
    tree.rust().filter_map(|file| stray(&file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_test_is_reported() {
        let tree = Tree::of([
            (
                "crates/a/tests/it/main.rs",
                "//! It.\nmod known;\n// mod lost;\n",
            ),
            ("crates/a/tests/it/known.rs", "mod part;\n"),
            ("crates/a/tests/it/known/part.rs", ""),
            ("crates/a/tests/it/known/other.rs", ""),
            ("crates/a/tests/it/lost.rs", ""),
            ("crates/b/tests/it/orphan.rs", ""),
        ]);
        assert_eq!(
            forgotten_tests(&tree),
            [
                "crates/a/tests/it/known/other.rs is not a `mod` of crates/a/tests/it/known.rs",
                "crates/a/tests/it/lost.rs is not a `mod` of crates/a/tests/it/main.rs",
                "crates/b/tests/it/orphan.rs is not a `mod` of crates/b/tests/it/main.rs",
            ]
        );
    }

    #[test]
    fn a_second_test_binary_is_reported() {
        let tree = Tree::of([
            ("crates/a/tests/it/main.rs", ""),
            ("crates/a/tests/more.rs", ""),
            ("crates/a/tests/other/main.rs", ""),
            ("crates/a/tests/other/part.rs", ""),
            ("crates/testkit/tests/tidy.rs", ""),
        ]);
        let stray = stray_binaries(&tree);
        assert_eq!(stray.len(), 2);
        assert!(stray[0].starts_with("crates/a/tests/more.rs "));
        assert!(stray[1].starts_with("crates/a/tests/other/main.rs "));
    }
}
