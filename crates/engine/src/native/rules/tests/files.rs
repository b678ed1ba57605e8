//! Where rule files are found, and when they are read again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::native::rules::{RULES_MAX, RuleCache, RuleDirectories, RuleSources};

struct Home {
    dir: tempfile::TempDir,
    cache: RuleCache,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("home/rules")).unwrap();
        fs::create_dir_all(dir.path().join("project/.codex/rules")).unwrap();
        Self {
            dir,
            cache: RuleCache::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn load(&self, sources: RuleSources) -> Result<Arc<RuleSet>, String> {
        let home = self.path("home");
        let project = [self.path("project")];
        let directories =
            RuleDirectories::new(sources, &[home.as_path(), Path::new("/none")], &project);
        let shown = self.dir.path().display().to_string();
        let loaded = self.cache.load(&directories);
        loaded.map_err(|error| error.to_string().replace(&shown, "DIR"))
    }

    fn all(&self) -> Result<Arc<RuleSet>, String> {
        self.load(RuleSources::All)
    }
}

#[test]
fn files_of_homes_and_projects_hold_and_change() {
    let home = Home::new();
    home.write("home/rules/a.rules", "prefix_rule(pattern=[\"a\"])");
    home.write("home/rules/ignored.txt", "not a rule");
    home.write(
        "project/.codex/rules/b.rules",
        "prefix_rule(pattern=[\"b\"])",
    );
    let first = home.all().unwrap();
    assert_eq!(judge(&first, "a"), Verdict::AllowedUnconfined);
    assert_eq!(judge(&first, "b"), Verdict::Allowed);
    assert!(Arc::ptr_eq(&first, &home.all().unwrap()), "not read again");
    home.write(
        "home/rules/a.rules",
        "prefix_rule(pattern=[\"a\"], decision=\"forbidden\")",
    );
    assert!(is_forbidden(&home.all().unwrap(), "a"));
    fs::remove_file(home.path("home/rules/a.rules")).unwrap();
    assert_eq!(judge(&home.all().unwrap(), "a"), Verdict::Unmatched);
    let system = home.load(RuleSources::SystemOnly).unwrap();
    assert_eq!(judge(&system, "b"), Verdict::Unmatched);
}

#[test]
fn a_file_that_cannot_be_read_completely_fails_the_load() {
    let home = Home::new();
    home.write("home/rules/a.rules", "\nprefix_rule(");
    assert_eq!(
        home.all().unwrap_err(),
        "failed to load rules: DIR/home/rules/a.rules:2: expected a call such as prefix_rule(…)"
    );
    home.write("home/rules/a.rules", [0xff, 0xfe]);
    assert_eq!(
        home.all().unwrap_err(),
        "failed to load rules: DIR/home/rules/a.rules: it is not UTF-8"
    );
    home.write("home/rules/a.rules", vec![b'#'; 1024 * 1024 + 1]);
    assert_eq!(
        home.all().unwrap_err(),
        "failed to load rules: DIR/home/rules/a.rules: it is longer than 1048576 bytes"
    );
    home.write(
        "home/rules/a.rules",
        "prefix_rule(pattern=[\"a\"])\n".repeat(RULES_MAX + 1),
    );
    assert_eq!(
        home.all().unwrap_err(),
        "failed to load rules: DIR/home/rules/a.rules: there are more than 10000 rules"
    );
    fs::remove_file(home.path("home/rules/a.rules")).unwrap();
    fs::create_dir(home.path("home/rules/a.rules")).unwrap();
    assert_eq!(
        home.all().unwrap_err(),
        "failed to load rules: DIR/home/rules/a.rules: it is not a regular file"
    );
    fs::remove_dir(home.path("home/rules/a.rules")).unwrap();
    std::os::unix::fs::symlink("gone", home.path("home/rules/a.rules")).unwrap();
    assert!(
        home.all()
            .unwrap_err()
            .starts_with("failed to load rules: DIR/home/rules/a.rules: No such file")
    );
}
