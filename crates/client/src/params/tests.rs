//! The exact fields of thread calls and turns.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::profile::{Effort, GranularApproval, Personality, ReasoningSummary};

fn thread(profile: &Profile) -> Value {
    Value::Object(thread_fields(profile, None, None))
}

fn turn(profile: &Profile) -> Value {
    Value::Object(turn_fields(profile))
}

#[test]
fn nothing_chosen_still_says_approval_and_sandbox() {
    let profile = Profile::new();
    assert_eq!(
        thread(&profile),
        json!({"approvalPolicy": "never", "sandbox": "read-only"})
    );
    assert_eq!(
        turn(&profile),
        json!({"approvalPolicy": "never", "effort": "medium",
            "sandboxPolicy": {"type": "readOnly", "networkAccess": false}})
    );
}

#[test]
fn everything_chosen_stands_under_its_name() {
    let profile = Profile::new()
        .model("m")
        .model_provider("p")
        .service_tier("flex")
        .effort(Effort::high())
        .summary(ReasoningSummary::Concise)
        .personality(Personality::Pragmatic)
        .approval(Approval::OnRequest)
        .output_schema(json!({"type": "object"}));
    let config = json!({"model_verbosity": "low"});
    let fields = thread_fields(&profile, Some("/srv"), config.as_object());
    assert_eq!(
        Value::Object(fields),
        json!({"model": "m", "modelProvider": "p", "serviceTier": "flex",
            "personality": "pragmatic", "cwd": "/srv", "approvalPolicy": "on-request",
            "sandbox": "read-only", "config": {"model_verbosity": "low"}})
    );
    assert_eq!(
        turn(&profile),
        json!({"model": "m", "serviceTier": "flex", "effort": "high", "summary": "concise",
            "personality": "pragmatic", "approvalPolicy": "on-request",
            "sandboxPolicy": {"type": "readOnly", "networkAccess": false},
            "outputSchema": {"type": "object"}})
    );
}

#[test]
fn a_workspace_is_a_word_for_threads_and_an_object_for_turns() {
    let limits = WorkspaceWrite {
        writable_roots: vec!["/extra".to_owned()],
        network_access: true,
        ..WorkspaceWrite::default()
    };
    let profile = Profile::new().sandbox(limits);
    assert_eq!(
        thread(&profile),
        json!({"approvalPolicy": "never", "sandbox": "workspace-write",
            "config": {"sandbox_workspace_write":
                {"writable_roots": ["/extra"], "network_access": true}}})
    );
    assert_eq!(
        turn(&profile)["sandboxPolicy"],
        json!({"type": "workspaceWrite", "writableRoots": ["/extra"], "networkAccess": true,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": false})
    );
}

#[test]
fn a_plain_workspace_says_that_it_has_no_roots_and_no_network() {
    let profile = Profile::new().sandbox(Sandbox::workspace_write());
    assert_eq!(
        thread(&profile)["config"],
        json!({"sandbox_workspace_write": {"writable_roots": [], "network_access": false}})
    );
}

#[test]
fn exclusions_and_the_callers_own_keys_stand_beside_the_limits() {
    let limits = WorkspaceWrite {
        exclude_slash_tmp: true,
        exclude_tmpdir_env_var: true,
        ..WorkspaceWrite::default()
    };
    let profile = Profile::new().sandbox(limits);
    let config = json!({"a": 1, "sandbox_workspace_write": {"network_access": true, "other": 2}});
    let fields = thread_fields(&profile, None, config.as_object());
    assert_eq!(
        fields["config"],
        json!({"a": 1, "sandbox_workspace_write": {"writable_roots": [], "network_access": false,
            "exclude_tmpdir_env_var": true, "exclude_slash_tmp": true, "other": 2}})
    );
}

#[test]
fn every_other_sandbox_has_its_form() {
    let forms = [
        (
            SandboxPolicy::ReadOnly {
                network_access: true,
            },
            json!("read-only"),
            json!({"type": "readOnly", "networkAccess": true}),
        ),
        (
            SandboxPolicy::DangerFullAccess,
            json!("danger-full-access"),
            json!({"type": "dangerFullAccess"}),
        ),
        (
            SandboxPolicy::ExternalSandbox {
                network_access: turnlane_protocol::policy::NetworkAccess::Enabled,
            },
            json!({"type": "externalSandbox", "networkAccess": "enabled"}),
            json!({"type": "externalSandbox", "networkAccess": "enabled"}),
        ),
    ];
    for (policy, of_thread, of_turn) in forms {
        let profile = Profile::new().sandbox(policy);
        assert_eq!(thread(&profile)["sandbox"], of_thread);
        assert_eq!(turn(&profile)["sandboxPolicy"], of_turn);
    }
}

#[test]
fn named_permissions_take_the_place_of_a_sandbox() {
    let profile = Profile::new().sandbox(Sandbox::Permissions("dev".to_owned()));
    assert_eq!(
        thread(&profile),
        json!({"approvalPolicy": "never", "permissions": "dev"})
    );
    assert_eq!(
        turn(&profile),
        json!({"approvalPolicy": "never", "effort": "medium", "permissions": "dev"})
    );
}

#[test]
fn a_raw_sandbox_goes_as_it_is_unless_it_is_one_we_know() {
    let known = json!({"type": "workspaceWrite", "writableRoots": ["/x"]});
    let profile = Profile::new().sandbox(Sandbox::Raw(known.clone()));
    assert_eq!(thread(&profile)["sandbox"], json!("workspace-write"));
    assert_eq!(turn(&profile)["sandboxPolicy"], known);
    let new = json!({"type": "somethingNew"});
    let profile = Profile::new().sandbox(Sandbox::Raw(new.clone()));
    assert_eq!(thread(&profile)["sandbox"], new);
    assert_eq!(turn(&profile)["sandboxPolicy"], new);
}

#[test]
fn every_approval_has_its_word() {
    let granular = GranularApproval {
        mcp_elicitations: true,
        rules: false,
        sandbox_approval: true,
        request_permissions: false,
        skill_approval: false,
    };
    let words = [
        (Approval::Untrusted, json!("untrusted")),
        (Approval::OnRequest, json!("on-request")),
        (Approval::Never, json!("never")),
        (
            Approval::Granular(granular),
            json!({"granular": {"mcp_elicitations": true, "rules": false, "sandbox_approval": true,
                "request_permissions": false, "skill_approval": false}}),
        ),
    ];
    for (approval, word) in words {
        let profile = Profile::new().approval(approval);
        assert_eq!(thread(&profile)["approvalPolicy"], word);
        assert_eq!(turn(&profile)["approvalPolicy"], word);
    }
}

#[test]
fn a_relative_directory_is_taken_from_ours_and_need_not_exist() {
    let here = std::env::current_dir().unwrap();
    let absolute = absolute_cwd(Path::new("no/such/place")).unwrap();
    assert_eq!(Path::new(&absolute), here.join("no/such/place"));
    assert_eq!(absolute_cwd(Path::new("/no/such")).unwrap(), "/no/such");
}

#[test]
fn a_directory_without_a_name_or_with_nul_is_refused() {
    for cwd in ["", "  ", "/a\0b"] {
        let refused = absolute_cwd(Path::new(cwd)).unwrap_err();
        assert!(
            matches!(refused, CallError::InvalidArgument { what: "cwd", .. }),
            "{refused:?}"
        );
    }
}
