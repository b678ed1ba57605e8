//! The standing text: its order, its size, and what each policy makes the model know.
//!
//! The base prompt's wording is not fixed here, only what it has to speak about.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn text_for(sandbox: Value, approval: Value) -> String {
    let sandbox: SandboxPolicy = serde_json::from_value(sandbox).unwrap();
    let roots = ["/project".to_owned(), "/tmp".to_owned()];
    environment(&Environment {
        cwd: "/project",
        shell: "bash",
        os: "linux",
        date: "2030-01-31",
        sandbox: &sandbox,
        writable_roots: &roots,
        approval: serde_json::from_value(approval).unwrap(),
    })
}

#[test]
fn the_base_prompt_is_short_and_says_what_it_must() {
    assert!(BASE.len() <= 4096, "{} bytes", BASE.len());
    for word in [
        "Turnlane",
        "until the task is done",
        "Read before you change",
        "*** Begin Patch",
        "*** Update File: ",
        "*** End Patch",
        "smallest change",
        "the project's own checks",
        "Never undo",
        "Do not commit",
        "denial",
        "refused",
        "plan",
        "Plain text",
        "file.rs:42",
    ] {
        assert!(BASE.contains(word), "{word}");
    }
}

#[test]
fn parts_stand_in_one_order_and_empty_ones_leave_no_trace() {
    let sandbox = SandboxPolicy::DangerFullAccess;
    let environment = Environment {
        cwd: "/project",
        shell: "bash",
        os: "linux",
        date: "2030-01-31",
        sandbox: &sandbox,
        writable_roots: &[],
        approval: ApprovalPolicy::Never,
    };
    let document = |path: &str, text: &str| Document {
        path: PathBuf::from(path),
        text: text.to_owned(),
    };
    let documents = [
        document("/home/AGENTS.md", "general\n"),
        document("/project/AGENTS.md", " \n"),
        document("/project/a/AGENTS.md", "special"),
    ];
    let parts = Parts {
        base: Some("base\n"),
        environment: &environment,
        developer: Some("developer"),
        documents: &documents,
    };
    let text = compose(&parts);
    let start = "base\n\n# Environment\n- working directory: /project\n- shell: bash\n- operating \
                 system: linux\n- date: 2030-01-31\n- writable: everything\n- network: on\n";
    assert!(text.starts_with(start), "{text}");
    let end = "\n\ndeveloper\n\n# /home/AGENTS.md\n\ngeneral\n\n# /project/a/AGENTS.md\n\nspecial";
    assert!(text.ends_with(end), "{text}");

    let bare = Parts {
        base: None,
        developer: Some("  "),
        documents: &[],
        ..parts
    };
    let text = compose(&bare);
    assert!(text.starts_with(BASE.trim()));
    assert!(text.ends_with("within these limits."));
    assert!(!text.contains("\n\n\n"));
}

#[test]
fn a_model_knows_where_it_may_write_and_whether_it_has_a_network() {
    for (sandbox, writable, network) in [
        (json!({"type": "readOnly"}), "nothing", "off"),
        (
            json!({"type": "readOnly", "networkAccess": true}),
            "nothing",
            "on",
        ),
        (
            json!({"type": "workspaceWrite"}),
            "/project, /tmp (not .git",
            "off",
        ),
        (
            json!({"type": "workspaceWrite", "networkAccess": true}),
            "/project, /tmp",
            "on",
        ),
        (json!({"type": "dangerFullAccess"}), "everything", "on"),
        (
            json!({"type": "externalSandbox"}),
            "what the sandbox around",
            "off",
        ),
        (
            json!({"type": "externalSandbox", "networkAccess": "enabled"}),
            "what the sandbox around",
            "on",
        ),
    ] {
        let text = text_for(sandbox.clone(), json!("never"));
        assert!(
            text.contains(&format!("\n- writable: {writable}")),
            "{sandbox}: {text}"
        );
        assert!(
            text.contains(&format!("\n- network: {network}\n")),
            "{sandbox}: {text}"
        );
    }
}

#[test]
fn a_model_knows_how_to_ask_and_whether_to() {
    let asks = "set `sandbox_permissions` to `require_escalated`";
    let does_not = "do not set `require_escalated`";
    let granular = |sandbox_approval: bool| {
        json!({"granular": {"mcp_elicitations": true, "rules": true,
            "sandbox_approval": sandbox_approval}})
    };
    for (approval, expected) in [
        (json!("untrusted"), asks),
        (json!("on-request"), asks),
        (json!("never"), does_not),
        (granular(true), asks),
        (granular(false), does_not),
    ] {
        let text = text_for(json!({"type": "readOnly"}), approval.clone());
        assert!(text.contains(expected), "{approval}: {text}");
    }
}
