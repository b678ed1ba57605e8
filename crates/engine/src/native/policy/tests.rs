//! The approval table, one row per cell, and where patches may write.
//!
//! The invariant here: a row is what the contract says; nothing is computed from the code.

use std::path::Path;

use turnlane_protocol::policy::{
    ApprovalPolicy, GranularApproval, NetworkAccess, SandboxPolicy, WorkspaceWrite,
};

use super::*;
use crate::native::tools::exec::sandbox_for;
use crate::request::TurnSettings;

const UNTRUSTED: ApprovalPolicy = ApprovalPolicy::Untrusted;
const ON_REQUEST: ApprovalPolicy = ApprovalPolicy::OnRequest;
const NEVER: ApprovalPolicy = ApprovalPolicy::Never;
const NOTHING: ApprovalPolicy = granular(false, false);
const RULES: ApprovalPolicy = granular(true, false);
const SANDBOX: ApprovalPolicy = granular(false, true);
const BOTH: ApprovalPolicy = granular(true, true);

const fn granular(rules: bool, sandbox_approval: bool) -> ApprovalPolicy {
    ApprovalPolicy::Granular(GranularApproval {
        mcp_elicitations: true,
        rules,
        sandbox_approval,
        request_permissions: true,
        skill_approval: true,
    })
}

#[test]
fn every_cell_about_commands_is_kept() {
    use Danger::{No, Yes};
    use Escalation::{Confined, Escalated};
    use Stance::{Ask, Refuse, Run};
    for (approval, dangerous, escalated, expected) in [
        (UNTRUSTED, No, Confined, Ask),
        (UNTRUSTED, Yes, Confined, Ask),
        (UNTRUSTED, No, Escalated, Ask),
        (ON_REQUEST, No, Confined, Run),
        (ON_REQUEST, Yes, Confined, Ask),
        (ON_REQUEST, No, Escalated, Ask),
        (NEVER, No, Confined, Run),
        (NEVER, Yes, Confined, Refuse),
        (NEVER, No, Escalated, Refuse),
        (NOTHING, No, Confined, Run),
        (NOTHING, Yes, Confined, Refuse),
        (NOTHING, No, Escalated, Refuse),
        (RULES, No, Confined, Run),
        (RULES, Yes, Confined, Ask),
        (RULES, No, Escalated, Refuse),
        (SANDBOX, No, Confined, Run),
        (SANDBOX, Yes, Confined, Refuse),
        (SANDBOX, No, Escalated, Ask),
        // Both at once: the stricter cell.
        (UNTRUSTED, Yes, Escalated, Ask),
        (ON_REQUEST, Yes, Escalated, Ask),
        (NEVER, Yes, Escalated, Refuse),
        (RULES, Yes, Escalated, Refuse),
        (SANDBOX, Yes, Escalated, Refuse),
        (BOTH, Yes, Escalated, Ask),
    ] {
        let facts = CommandFacts {
            dangerous,
            escalated,
        };
        assert_eq!(
            for_command(approval, facts),
            expected,
            "{approval:?} {facts:?}"
        );
    }
}

#[test]
fn every_cell_about_denials_is_kept() {
    for (approval, expected) in [
        (UNTRUSTED, Denied::AskUnconfined),
        (ON_REQUEST, Denied::Tell),
        (NEVER, Denied::Tell),
        (NOTHING, Denied::Tell),
        (RULES, Denied::Tell),
        (SANDBOX, Denied::AskUnconfined),
        (BOTH, Denied::AskUnconfined),
    ] {
        assert_eq!(after_denial(approval), expected, "{approval:?}");
    }
}

#[test]
fn every_cell_about_patches_is_kept() {
    use Stance::{Ask, Refuse, Run};
    for (approval, inside, outside) in [
        (UNTRUSTED, Ask, Ask),
        (ON_REQUEST, Run, Ask),
        (NEVER, Run, Refuse),
        (NOTHING, Run, Refuse),
        (RULES, Run, Refuse),
        (SANDBOX, Run, Ask),
        (BOTH, Run, Ask),
    ] {
        assert_eq!(for_patch(approval, Place::Inside), inside, "{approval:?}");
        assert_eq!(for_patch(approval, Place::Outside), outside, "{approval:?}");
    }
}

#[test]
fn on_failure_is_read_as_on_request() {
    let read: ApprovalPolicy = serde_json::from_str("\"on-failure\"").unwrap();
    assert_eq!(read, ON_REQUEST);
}

#[test]
fn a_reason_is_told_in_place_of_the_usual_text() {
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(rejected(PATCH_REJECTED, None), "patch rejected by user");
    assert_eq!(
        rejected(COMMAND_REJECTED, reason(" ")),
        "exec command rejected by user"
    );
    assert_eq!(
        rejected(PATCH_REJECTED, reason("no one answered")),
        "no one answered"
    );
}

/// A folder with `project` (in it `.git`), `extra`, `tmpdir` and `other`.
fn scene() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap();
    for folder in ["project/.git", "project/sub", "extra", "tmpdir", "other"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    (home, root)
}

fn settings(cwd: &Path) -> TurnSettings {
    TurnSettings {
        model: String::new(),
        provider: String::new(),
        cwd: cwd.display().to_string(),
        runtime_workspace_roots: Vec::new(),
        environments: None,
        config: serde_json::Map::new(),
        approval_policy: NEVER,
        sandbox_policy: SandboxPolicy::DangerFullAccess,
        requires_sandbox: false,
        effort: None,
        summary: None,
        service_tier: None,
        output_schema: None,
        base_instructions: None,
        developer_instructions: None,
    }
}

/// A workspace without `/tmp`, where the scene itself may lie.
fn workspace(limits: WorkspaceWrite) -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
        exclude_slash_tmp: true,
        ..limits
    })
}

fn inside(policy: &SandboxPolicy, root: &Path, paths: &[&str]) -> Vec<String> {
    let settings = TurnSettings {
        sandbox_policy: policy.clone(),
        ..settings(&root.join("project"))
    };
    let sandbox = sandbox_for(&settings, Escalation::Confined);
    let writable = Writable::of(&sandbox, Some(&root.join("tmpdir")), &[]);
    let judged = paths
        .iter()
        .filter(|path| writable.judge(&root.join(path)) == Place::Inside);
    judged.map(ToString::to_string).collect()
}

const PATHS: [&str; 12] = [
    "project/new",
    "project/sub/deep/new",
    "project/.git/config",
    "project/.codex/not-there-yet",
    "project/sub/.GIT/hooks/x",
    "project/.agents",
    "project/.turnlane/x",
    "extra/new",
    "tmpdir/new",
    "other/new",
    "project",
    "/tmp/new",
];

#[test]
fn a_workspace_is_open_but_for_protected_names() {
    let (_home, root) = scene();
    let more = workspace(WorkspaceWrite {
        writable_roots: vec![root.join("extra").display().to_string()],
        ..WorkspaceWrite::default()
    });
    let expected = [
        "project/new",
        "project/sub/deep/new",
        "extra/new",
        "tmpdir/new",
    ];
    assert_eq!(inside(&more, &root, &PATHS), expected);
    let less = workspace(WorkspaceWrite {
        exclude_tmpdir_env_var: true,
        writable_roots: vec!["../extra".to_owned(), "/not/there".to_owned()],
        ..WorkspaceWrite::default()
    });
    let expected = ["project/new", "project/sub/deep/new", "extra/new"];
    assert_eq!(inside(&less, &root, &PATHS), expected);
}

#[test]
fn the_temporary_folder_is_open_unless_excluded() {
    let (_home, root) = scene();
    let open = SandboxPolicy::WorkspaceWrite(WorkspaceWrite::default());
    assert_eq!(
        inside(&open, &root, &["/tmp/new", "/tmp/.git/new"]),
        ["/tmp/new"]
    );
    let closed = workspace(WorkspaceWrite::default());
    assert!(inside(&closed, &root, &["/tmp/new"]).is_empty());
}

#[test]
fn other_sandboxes_open_everything_or_nothing() {
    let (_home, root) = scene();
    let none = SandboxPolicy::ReadOnly {
        network_access: true,
    };
    assert!(inside(&none, &root, &PATHS).is_empty());
    let network_access = NetworkAccess::Restricted;
    for all in [
        SandboxPolicy::DangerFullAccess,
        SandboxPolicy::ExternalSandbox { network_access },
    ] {
        assert_eq!(inside(&all, &root, &PATHS), PATHS);
    }
}

#[test]
fn what_a_protected_link_leads_to_is_protected_too() {
    let (_home, root) = scene();
    let project = root.join("project");
    std::fs::remove_dir(project.join(".git")).unwrap();
    std::fs::create_dir(project.join("kept")).unwrap();
    std::os::unix::fs::symlink("kept", project.join(".git")).unwrap();
    let policy = workspace(WorkspaceWrite::default());
    let paths = ["project/kept/config", "project/new"];
    assert_eq!(inside(&policy, &root, &paths), ["project/new"]);
}

#[test]
fn a_folder_that_is_gone_opens_nothing() {
    let (_home, root) = scene();
    std::fs::remove_dir_all(root.join("project")).unwrap();
    let policy = workspace(WorkspaceWrite::default());
    assert!(inside(&policy, &root, &PATHS).is_empty());
}
