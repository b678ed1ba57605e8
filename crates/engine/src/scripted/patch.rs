//! What a patch in a script would do, as far as its text tells.
//!
//! The invariant here: no file is read. An update's diff is what the patch says, with its own
//! headers, so a script gives the same items on every machine.
//!
//! Applying patches is not done here.

use turnlane_protocol::item::{Extra, FileUpdate, FileUpdateKind};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// The changes of a patch, in order; an error is a text for the writer of the script.
pub(super) fn changes(patch: &str) -> Result<Vec<FileUpdate>, String> {
    let mut lines = patch.trim().lines();
    if lines.next() != Some(BEGIN) {
        return Err(format!("the first line of a patch is '{BEGIN}'"));
    }
    if lines.next_back() != Some(END) {
        return Err(format!("the last line of a patch is '{END}'"));
    }
    let mut changes: Vec<FileUpdate> = Vec::new();
    for line in lines {
        if let Some((path, kind)) = header(line) {
            changes.push(FileUpdate {
                path: path.to_owned(),
                kind,
                diff: String::new(),
                extra: Extra::new(),
            });
            continue;
        }
        let Some(change) = changes.last_mut() else {
            return Err(format!("'{line}' is not a valid hunk header"));
        };
        body_line(change, line)?;
    }
    if changes.is_empty() {
        return Err("the patch changes no file".to_owned());
    }
    Ok(changes)
}

fn header(line: &str) -> Option<(&str, FileUpdateKind)> {
    let add = line.strip_prefix("*** Add File: ");
    let delete = line.strip_prefix("*** Delete File: ");
    let update = line.strip_prefix("*** Update File: ");
    add.map(|path| (path, FileUpdateKind::Add))
        .or(delete.map(|path| (path, FileUpdateKind::Delete)))
        .or(update.map(|path| (path, FileUpdateKind::Update { move_path: None })))
}

fn body_line(change: &mut FileUpdate, line: &str) -> Result<(), String> {
    let text = match &mut change.kind {
        FileUpdateKind::Add => line.strip_prefix('+'),
        FileUpdateKind::Update { move_path } => {
            if let Some(path) = line.strip_prefix("*** Move to: ") {
                *move_path = Some(path.to_owned());
                return Ok(());
            }
            if line == "*** End of File" {
                return Ok(());
            }
            let is_body = line.is_empty() || line.starts_with([' ', '+', '-', '@']);
            is_body.then_some(line)
        }
        FileUpdateKind::Delete | FileUpdateKind::Unlisted(_) => None,
    };
    let text = text.ok_or_else(|| format!("unexpected line '{line}'"))?;
    change.diff.push_str(text);
    change.diff.push('\n');
    Ok(())
}

/// A unified diff of one change, for the diff of the turn.
pub(super) fn unified(change: &FileUpdate) -> String {
    let path = &change.path;
    match &change.kind {
        FileUpdateKind::Add => {
            let lines = change.diff.lines().count();
            // Each line of the content follows a `+`; the last break belongs to the last line.
            let added = change.diff.trim_end_matches('\n').replace('\n', "\n+");
            format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1,{lines} @@\n+{added}\n")
        }
        // What stood in the file is not known here.
        FileUpdateKind::Delete => format!("--- {path}\n+++ /dev/null\n"),
        FileUpdateKind::Update { move_path } => {
            let to = move_path.as_ref().unwrap_or(path);
            format!("--- {path}\n+++ {to}\n{}", change.diff)
        }
        FileUpdateKind::Unlisted(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_tells_its_changes() {
        let patch = "*** Begin Patch\n*** Add File: a\n+one\n+two\n*** Delete File: b\n\
                     *** Update File: c\n*** Move to: d\n@@\n-x\n+y\n*** End of File\n*** End Patch\n";
        let changes = changes(patch).unwrap();
        let [add, delete, update] = changes.as_slice() else {
            panic!("three changes");
        };
        assert_eq!((&*add.path, &*add.diff), ("a", "one\ntwo\n"));
        assert_eq!(delete.kind, FileUpdateKind::Delete);
        assert_eq!(update.diff, "@@\n-x\n+y\n");
        assert_eq!(
            unified(add),
            "--- /dev/null\n+++ a\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        );
        assert_eq!(unified(update), "--- c\n+++ d\n@@\n-x\n+y\n");
    }

    #[test]
    fn a_text_that_is_no_patch_is_refused() {
        for text in [
            "",
            "x",
            "*** Begin Patch",
            "*** Begin Patch\n*** End Patch",
            "*** Begin Patch\n+x\n*** End Patch",
            "*** Begin Patch\n*** Delete File: b\n+x\n*** End Patch",
        ] {
            assert!(changes(text).is_err(), "{text:?}");
        }
    }
}
