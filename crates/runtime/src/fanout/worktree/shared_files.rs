//! Files that several items of a job changed: whoever merges their branches meets them. The job notes
//! them when it ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use turnlane_store::Json;

/// The most files that a job lists.
const FILES_MAX: usize = 100;
/// The most items that are named for one file.
const ITEMS_MAX: usize = 20;

/// A file that several items changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedFile {
    /// Its path in the repository.
    pub path: String,
    /// The first of those items.
    pub item_ids: Vec<String>,
    /// The number of those items.
    pub items: usize,
}

/// Collects the files of one item after the other.
#[derive(Debug, Default)]
pub(super) struct FilesOfItems(BTreeMap<String, SharedFile>);

impl FilesOfItems {
    pub(super) fn add(&mut self, item_id: &str, files: &[String]) {
        for path in files {
            let file = self.0.entry(path.clone()).or_insert_with(|| SharedFile {
                path: path.clone(),
                item_ids: Vec::new(),
                items: 0,
            });
            file.items += 1;
            if file.item_ids.len() < ITEMS_MAX {
                file.item_ids.push(item_id.to_owned());
            }
        }
    }

    /// The files that several items changed, by their paths.
    pub(super) fn shared(self) -> Vec<SharedFile> {
        let shared = self.0.into_values().filter(|file| file.items > 1);
        shared.take(FILES_MAX).collect()
    }
}

/// What a job notes about the worktrees of its items when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TreesNote {
    /// The number of worktrees that have work in them.
    pub kept: usize,
    /// Files that several items changed, by their paths; the first of them.
    pub shared_files: Vec<SharedFile>,
}

/// The member of a job's notes that holds this one.
const MEMBER: &str = "worktrees";

impl TreesNote {
    /// Reads it among the notes of a job.
    pub fn of_notes(notes: &Json) -> Self {
        let notes: Option<serde_json::Value> = serde_json::from_str(notes.as_str()).ok();
        let noted = notes.and_then(|mut notes| Some(notes.get_mut(MEMBER)?.take()));
        let noted = noted.and_then(|noted| serde_json::from_value(noted).ok());
        noted.unwrap_or_default()
    }

    /// The notes with this one; none where they cannot be read.
    pub(super) fn added_to(&self, notes: &Json) -> Option<Json> {
        let mut notes: serde_json::Value = serde_json::from_str(notes.as_str()).ok()?;
        let members = notes.as_object_mut()?;
        members.insert(MEMBER.to_owned(), serde_json::json!(self));
        Some(Json::new(notes.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_items_are_listed_with_them() {
        let files = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let mut all = FilesOfItems::default();
        all.add("row-1", &files(&["a", "b"]));
        all.add("row-2", &files(&["b", "c"]));
        for row in 3..50 {
            all.add(&format!("row-{row}"), &files(&["d"]));
        }
        let shared = all.shared();
        let [b, d] = &shared[..] else {
            panic!("{shared:?}");
        };
        assert_eq!((b.path.as_str(), b.items), ("b", 2));
        assert_eq!(b.item_ids, ["row-1", "row-2"]);
        assert_eq!((d.items, d.item_ids.len()), (47, ITEMS_MAX));
        let notes = Json::new(r#"{"warnings":["w"]}"#);
        assert_eq!(TreesNote::of_notes(&notes), TreesNote::default());
        let note = TreesNote {
            kept: 49,
            shared_files: shared,
        };
        let noted = note.added_to(&notes).unwrap();
        assert_eq!(TreesNote::of_notes(&noted), note);
        assert!(noted.as_str().contains(r#""warnings":["w"]"#), "{noted:?}");
    }
}
