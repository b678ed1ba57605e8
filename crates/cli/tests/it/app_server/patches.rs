//! A patch writes what was judged and nothing else, whatever its paths look like and whatever
//! happens to them while somebody is asked.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Served, begin, call_what_is_said, came, completed_in, decide, ended, question, stored_in,
    thread, told, turn,
};

/// What may be written is the workspace: the folders for temporary files hold the test's own.
fn workspace_write() -> Value {
    json!({
        "type": "workspaceWrite", "writableRoots": [], "networkAccess": false,
        "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
    })
}

/// A text that makes the model call `apply_patch` once per patch.
fn patches(bodies: &[String]) -> String {
    let calls = bodies.iter().map(|body| {
        let input = format!("*** Begin Patch\n{body}*** End Patch\n");
        json!(["apply_patch", {"input": input}])
    });
    Value::Array(calls.collect()).to_string()
}

fn adding(path: &str) -> String {
    patches(&[format!("*** Add File: {path}\n+new\n")])
}

/// A workspace with a way out of every kind, and what lies outside.
struct Ways {
    outside: TempDir,
}

impl Ways {
    fn new(work: &Path) -> Self {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("there"), "old\n").unwrap();
        symlink(outside.path(), work.join("folder")).unwrap();
        symlink(outside.path().join("there"), work.join("leaf")).unwrap();
        symlink(outside.path().join("absent"), work.join("dangling")).unwrap();
        std::fs::create_dir(work.join(".git")).unwrap();
        Self { outside }
    }

    /// Each patch with the file that it would write.
    fn out(&self, work: &Path) -> Vec<(String, PathBuf)> {
        let outside = self.outside.path().canonicalize().unwrap();
        let up = "../".repeat(work.components().count());
        let absolute = outside.join("absolute");
        vec![
            (adding("folder/linked"), outside.join("linked")),
            (
                adding(&format!("{up}{}/up", outside.display())),
                outside.join("up"),
            ),
            (adding(absolute.to_str().unwrap()), absolute),
            (adding(".git/hook"), work.join(".git/hook")),
            (
                patches(&["*** Update File: leaf\n@@\n-old\n+new\n".to_owned()]),
                outside.join("there"),
            ),
            (adding("dangling"), outside.join("absent")),
        ]
    }

    /// A file's content, unless it is as it was.
    fn changed(path: &Path) -> Option<String> {
        let text = std::fs::read_to_string(path).ok()?;
        (text != "old\n").then_some(text)
    }
}

fn file_changes(items: &[Value]) -> Vec<&Value> {
    let changes = items.iter().filter(|item| item["type"] == "fileChange");
    changes.collect()
}

#[tokio::test]
async fn every_way_out_is_asked_about_and_not_written_when_declined() {
    let served = Served::new(call_what_is_said).await;
    let ways = Ways::new(&served.work());
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "on-request", "sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    for (said, file) in ways.out(&served.work()) {
        let turn = begin(client, &thread, &said).await;
        let asked = question(client, &turn).await;
        assert_eq!(asked["method"], "item/fileChange/requestApproval", "{said}");
        decide(client, &asked, "decline").await;
        assert_eq!(ended(client, &turn).await["status"], "completed");
        assert_eq!(Ways::changed(&file), None, "{said}");
        assert_eq!(told(&served.mock), "patch rejected by user", "{said}");
        let items = completed_in(client, &turn);
        let changes = file_changes(&items);
        assert_eq!(changes[0]["status"], "declined", "{said}");
        assert_eq!(asked["params"]["itemId"], changes[0]["id"], "{said}");
        assert_eq!(stored_in(client, &thread, &turn).await, items, "{said}");
    }
    assert!(came(client, "turn/diff/updated").is_empty());
}

#[tokio::test]
async fn a_way_out_that_is_accepted_is_written_where_it_leads() {
    let served = Served::new(call_what_is_said).await;
    let ways = Ways::new(&served.work());
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "on-request", "sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    for (said, file) in ways.out(&served.work()) {
        let turn = begin(client, &thread, &said).await;
        let asked = question(client, &turn).await;
        decide(client, &asked, "accept").await;
        assert_eq!(ended(client, &turn).await["status"], "completed");
        assert_eq!(Ways::changed(&file).as_deref(), Some("new\n"), "{said}");
        let items = completed_in(client, &turn);
        assert_eq!(file_changes(&items)[0]["status"], "completed", "{said}");
        assert_eq!(stored_in(client, &thread, &turn).await, items, "{said}");
    }
    // Links are what they were.
    for link in ["folder", "leaf", "dangling"] {
        let path = served.work().join(link);
        assert!(path.symlink_metadata().unwrap().is_symlink(), "{link}");
    }
}

#[tokio::test]
async fn every_way_out_is_refused_where_nobody_may_be_asked() {
    let served = Served::new(call_what_is_said).await;
    let ways = Ways::new(&served.work());
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "never", "sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    for (said, file) in ways.out(&served.work()) {
        assert_eq!(turn(client, &thread, &said).await["status"], "completed");
        assert_eq!(Ways::changed(&file), None, "{said}");
        let refusal = "refused: needs approval and approvalPolicy is never";
        assert_eq!(told(&served.mock), refusal, "{said}");
    }
    let requests = came(client, "item/fileChange/requestApproval");
    assert!(requests.is_empty(), "{requests:?}");
}

/// A folder is swapped for a link to the outside while somebody is asked about a file in it.
async fn swapped(make_swap: impl Fn(&Path, &Path), said: &str) {
    let served = Served::new(call_what_is_said).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file"), "old\n").unwrap();
    let folder = served.work().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "old\n").unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "untrusted", "sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    let turn = begin(client, &thread, said).await;
    let asked = question(client, &turn).await;
    make_swap(&folder, outside.path());
    decide(client, &asked, "accept").await;
    assert_eq!(ended(client, &turn).await["status"], "completed");
    let names: Vec<_> = std::fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["file"], "{said}");
    let kept = std::fs::read_to_string(outside.path().join("file")).unwrap();
    assert_eq!(kept, "old\n", "{said}");
    let items = completed_in(client, &turn);
    assert_eq!(file_changes(&items)[0]["status"], "failed", "{said}");
    assert_eq!(stored_in(client, &thread, &turn).await, items);
    assert!(came(client, "turn/diff/updated").is_empty());
}

#[tokio::test]
async fn a_folder_swapped_for_a_link_during_the_question_is_not_followed() {
    let folder_for_link = |folder: &Path, outside: &Path| {
        std::fs::rename(folder, folder.with_extension("aside")).unwrap();
        symlink(outside, folder).unwrap();
    };
    swapped(folder_for_link, &adding("folder/new")).await;
    let update = "*** Update File: folder/file\n@@\n-old\n+new\n".to_owned();
    swapped(folder_for_link, &patches(&[update])).await;
    let delete = "*** Delete File: folder/file\n".to_owned();
    swapped(folder_for_link, &patches(&[delete])).await;
    let away = "*** Update File: folder/file\n*** Move to: folder/deep/er\n@@\n-old\n+new\n";
    swapped(folder_for_link, &patches(&[away.to_owned()])).await;
}

#[tokio::test]
async fn a_file_swapped_for_a_link_during_the_question_is_not_followed() {
    let file_for_link = |folder: &Path, outside: &Path| {
        std::fs::remove_file(folder.join("file")).unwrap();
        symlink(outside.join("file"), folder.join("file")).unwrap();
    };
    let update = "*** Update File: folder/file\n@@\n-old\n+new\n".to_owned();
    swapped(file_for_link, &patches(&[update])).await;
}

#[tokio::test]
async fn the_diff_of_a_turn_grows_with_its_patches_and_the_items_are_stored_as_told() {
    let served = Served::new(call_what_is_said).await;
    std::fs::write(served.work().join("b"), "one\ntwo\n").unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    let said = patches(&[
        "*** Add File: a\n+first\n".to_owned(),
        "*** Update File: b\n@@\n one\n-two\n+2\n".to_owned(),
        "*** Update File: b\n@@\n-no such line\n+2\n".to_owned(),
    ]);
    let turn = begin(client, &thread, &said).await;
    assert_eq!(ended(client, &turn).await["status"], "completed");
    let diffs: Vec<Value> = came(client, "turn/diff/updated")
        .iter()
        .map(|message| message["params"].clone())
        .collect();
    assert_eq!(diffs.len(), 2, "{diffs:?}");
    for diff in &diffs {
        assert_eq!(diff["threadId"], thread.as_str());
        assert_eq!(diff["turnId"], turn.as_str());
    }
    insta::assert_snapshot!(diffs[0]["diff"].as_str().unwrap(), @"
    diff --git a/a b/a
    new file mode 100644
    index 0000000000000000000000000000000000000000..9c59e24b8393179a5d712de4f990178df5734d99
    --- /dev/null
    +++ b/a
    @@ -0,0 +1 @@
    +first
    ");
    insta::assert_snapshot!(diffs[1]["diff"].as_str().unwrap(), @"
    diff --git a/a b/a
    new file mode 100644
    index 0000000000000000000000000000000000000000..9c59e24b8393179a5d712de4f990178df5734d99
    --- /dev/null
    +++ b/a
    @@ -0,0 +1 @@
    +first
    diff --git a/b b/b
    index 814f4a422927b82f5f8a43f8fab6d3839e3983f2..99b356dcd03dde0755c749bcd4cae4b2b73a8fa8 100644
    --- a/b
    +++ b/b
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    ");
    // The third failed before anything could be shown.
    let told = told(&served.mock);
    assert!(
        told.starts_with("apply_patch verification failed: Failed to find expected lines in"),
        "{told}"
    );
    let items = completed_in(client, &turn);
    let changes = file_changes(&items);
    assert_eq!(changes.len(), 2, "{items:?}");
    let path = served.work().join("a");
    let expected = json!([{"path": path, "kind": {"type": "add"}, "diff": "first\n"}]);
    assert_eq!(changes[0]["changes"], expected);
    assert_eq!(stored_in(client, &thread, &turn).await, items);
}

#[tokio::test]
async fn a_patch_inside_of_a_command_is_a_patch_and_makes_no_process() {
    let served = Served::new(call_what_is_said).await;
    std::fs::create_dir(served.work().join("sub")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let more = json!({"approvalPolicy": "never", "sandboxPolicy": workspace_write()});
    let thread = thread(client, &served.work(), more).await;
    let body = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+new\n*** End Patch");
    for (name, cmd) in [
        ("a", format!("apply_patch <<'EOF'\n{}\nEOF\n", body("a"))),
        ("b", format!("applypatch <<\"PATCH\"\n{}\nPATCH", body("b"))),
        (
            "sub/c",
            format!("cd sub && apply_patch <<EOF\n{}\nEOF\n", body("c")),
        ),
        ("d", format!("apply_patch '{}'", body("d"))),
    ] {
        let said = json!([["exec_command", {"cmd": cmd}]]).to_string();
        let turn = begin(client, &thread, &said).await;
        assert_eq!(ended(client, &turn).await["status"], "completed");
        let told = told(&served.mock);
        let success = "Success. Updated the following files:\nA ";
        assert!(told.starts_with(success), "{cmd}: {told}");
        let made = std::fs::read_to_string(served.work().join(name)).unwrap();
        assert_eq!(made, "new\n");
        let items = completed_in(client, &turn);
        let kinds: Vec<_> = items.iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["userMessage", "fileChange", "agentMessage"]);
    }
    // The same wall around it.
    let way_out = outside.path().join("out");
    let patch = body(way_out.to_str().unwrap());
    let cmd = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
    let said = json!([["exec_command", {"cmd": cmd}]]).to_string();
    turn(client, &thread, &said).await;
    assert!(!way_out.exists());
    assert!(told(&served.mock).starts_with("refused: "));
}
