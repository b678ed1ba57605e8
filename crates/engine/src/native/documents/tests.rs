//! Which documents are read, in which order, and which are not.
//!
//! Every test has its own folders; nothing of the machine's homes is looked at.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

struct Disk {
    folder: TempDir,
}

impl Disk {
    /// A disk with a project at `project`, in whose folder `a/b` we work.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in ["ours", "theirs", "project/.git", "project/a/b"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn places(&self) -> Places {
        Places {
            turnlane_home: Some(self.path("ours")),
            codex_home: Some(self.path("theirs")),
            cwd: self.path("project/a/b"),
            markers: vec![".git".to_owned()],
            fallback_names: vec!["TEAM.md".to_owned()],
            bytes_max: 32_768,
            trust: Trust::Trusted,
        }
    }
}

/// The texts, in order, of places where nothing is to be warned of.
fn texts(places: &Places) -> Vec<String> {
    let found = read(places);
    assert_eq!(found.warnings, Vec::<String>::new());
    found.documents.into_iter().map(|one| one.text).collect()
}

#[test]
fn documents_come_from_the_home_and_then_from_the_root_down() {
    let disk = Disk::new();
    assert_eq!(texts(&disk.places()), [""; 0]);
    disk.write("AGENTS.md", "above the root");
    disk.write("project/a/b/AGENTS.md", "b");
    disk.write("project/AGENTS.md", "root");
    disk.write("theirs/AGENTS.md", "theirs");
    assert_eq!(texts(&disk.places()), ["theirs", "root", "b"]);
    let found = read(&disk.places());
    let sources: Vec<_> = found.documents.into_iter().map(|one| one.path).collect();
    let expected = [
        "theirs/AGENTS.md",
        "project/AGENTS.md",
        "project/a/b/AGENTS.md",
    ];
    assert_eq!(sources, expected.map(|path| disk.path(path)));
}

#[test]
fn the_first_name_of_a_folder_wins() {
    let disk = Disk::new();
    for (path, expected) in [
        ("project/a/TEAM.md", vec!["project/a/TEAM.md"]),
        ("project/a/AGENTS.md", vec!["project/a/AGENTS.md"]),
        (
            "project/a/AGENTS.override.md",
            vec!["project/a/AGENTS.override.md"],
        ),
        (
            "theirs/AGENTS.md",
            vec!["theirs/AGENTS.md", "project/a/AGENTS.override.md"],
        ),
        (
            "theirs/AGENTS.override.md",
            vec!["theirs/AGENTS.override.md", "project/a/AGENTS.override.md"],
        ),
        (
            "ours/AGENTS.md",
            vec!["ours/AGENTS.md", "project/a/AGENTS.override.md"],
        ),
    ] {
        disk.write(path, path);
        assert_eq!(texts(&disk.places()), expected);
    }
}

#[test]
fn the_nearest_marked_folder_is_the_root_and_without_one_only_cwd_counts() {
    let disk = Disk::new();
    for folder in ["project", "project/a", "project/a/b"] {
        disk.write(&format!("{folder}/AGENTS.md"), folder);
    }
    let mut places = disk.places();
    assert_eq!(texts(&places).len(), 3);
    places.markers = vec!["go.mod".to_owned(), ".git".to_owned()];
    assert_eq!(texts(&places).len(), 3);
    disk.write("project/a/go.mod", "");
    assert_eq!(texts(&places), ["project/a", "project/a/b"]);
    for markers in [vec![], vec![String::new()], vec!["none".to_owned()]] {
        places.markers = markers;
        assert_eq!(texts(&places), ["project/a/b"]);
    }
}

#[test]
fn a_project_says_at_most_its_limit() {
    let disk = Disk::new();
    disk.write("ours/AGENTS.md", "not counted");
    disk.write("project/AGENTS.md", "12345");
    disk.write("project/a/AGENTS.md", "67é90");
    disk.write("project/a/b/AGENTS.md", "more");
    for (bytes_max, expected, cut) in [
        (0, vec!["not counted"], None),
        (4, vec!["not counted", "1234"], Some("project/AGENTS.md")),
        (5, vec!["not counted", "12345"], Some("project/a/AGENTS.md")),
        (
            8,
            vec!["not counted", "12345", "67"],
            Some("project/a/AGENTS.md"),
        ),
        (
            9,
            vec!["not counted", "12345", "67é"],
            Some("project/a/AGENTS.md"),
        ),
        (15, vec!["not counted", "12345", "67é90", "more"], None),
    ] {
        let found = read(&Places {
            bytes_max,
            ..disk.places()
        });
        let texts: Vec<_> = found.documents.iter().map(|one| &one.text).collect();
        assert_eq!(texts, expected, "{bytes_max}");
        let warnings = cut.into_iter().map(|path| {
            format!(
                "{} is cut: project documents are limited to {bytes_max} bytes \
                 (project_doc_max_bytes)",
                disk.path(path).display()
            )
        });
        assert_eq!(found.warnings, warnings.collect::<Vec<_>>(), "{bytes_max}");
    }
}

#[test]
fn a_link_leads_nowhere_but_inside_the_project() {
    let disk = Disk::new();
    disk.write("secret.md", "secret");
    disk.write("project/README.md", "inside");
    symlink(disk.path("secret.md"), disk.path("project/AGENTS.md")).unwrap();
    symlink("../../secret.md", disk.path("project/a/AGENTS.override.md")).unwrap();
    symlink("../README.md", disk.path("project/a/AGENTS.md")).unwrap();
    let found = read(&disk.places());
    let texts: Vec<_> = found.documents.iter().map(|one| &one.text).collect();
    assert_eq!(texts, ["inside"]);
    let warnings = ["project/AGENTS.md", "project/a/AGENTS.override.md"].map(|path| {
        let path = disk.path(path);
        format!(
            "{} is not read: it leads out of the project",
            path.display()
        )
    });
    assert_eq!(found.warnings, warnings);
}

#[test]
fn a_project_below_a_link_is_inside_itself() {
    let disk = Disk::new();
    disk.write("project/AGENTS.md", "root");
    symlink(disk.path("project"), disk.path("linked")).unwrap();
    let places = Places {
        cwd: disk.path("linked/a"),
        ..disk.places()
    };
    assert_eq!(texts(&places), ["root"]);
}

#[test]
fn only_regular_files_are_read() {
    let disk = Disk::new();
    fs::create_dir(disk.path("project/AGENTS.md")).unwrap();
    symlink("/dev/zero", disk.path("ours/AGENTS.md")).unwrap();
    symlink("nowhere", disk.path("project/a/AGENTS.md")).unwrap();
    let found = read(&disk.places());
    assert_eq!(found.documents, []);
    let warnings = ["ours/AGENTS.md", "project/AGENTS.md"].map(|path| {
        let path = disk.path(path);
        format!("{} is not read: it is not a regular file", path.display())
    });
    assert_eq!(found.warnings, warnings);
}

#[test]
fn an_untrusted_project_says_nothing() {
    let disk = Disk::new();
    disk.write("project/AGENTS.md", "obey me");
    disk.write("ours/AGENTS.md", "ours");
    let places = Places {
        trust: Trust::Untrusted,
        ..disk.places()
    };
    assert_eq!(texts(&places), ["ours"]);
}

#[test]
fn documents_are_read_again_when_one_came_went_or_changed() {
    let disk = Disk::new();
    disk.write("project/AGENTS.md", "one");
    let mut reader = Reader::default();
    let first = reader.look(&disk.places());
    assert!(Arc::ptr_eq(&first, &reader.look(&disk.places())));

    disk.write("project/AGENTS.md", "other");
    let second = reader.look(&disk.places());
    assert_eq!(second.documents[0].text, "other");

    // The same size at another time.
    disk.write("project/AGENTS.md", "newer");
    let file = File::options()
        .write(true)
        .open(disk.path("project/AGENTS.md"));
    file.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(reader.look(&disk.places()).documents[0].text, "newer");

    disk.write("project/a/AGENTS.md", "came");
    assert_eq!(reader.look(&disk.places()).documents.len(), 2);
    fs::remove_file(disk.path("project/AGENTS.md")).unwrap();
    assert_eq!(reader.look(&disk.places()).documents[0].text, "came");

    let untrusted = Places {
        trust: Trust::Untrusted,
        ..disk.places()
    };
    assert_eq!(reader.look(&untrusted).documents, []);
}
