//! Every row of the gate, their order, and every pair of what was asked and what was granted.

use serde_json::{Map, Value, json};

use super::*;
use crate::profile::{GranularApproval, WorkspaceWrite};

fn config(key: &str) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), json!("x"))])
}

fn privileged() -> Vec<Sandbox> {
    let read = |network_access| SandboxPolicy::ReadOnly { network_access };
    let external = |network_access| SandboxPolicy::ExternalSandbox { network_access };
    vec![
        read(true).into(),
        WorkspaceWrite::default().into(),
        external(NetworkAccess::Restricted).into(),
        external(NetworkAccess::Enabled).into(),
        SandboxPolicy::DangerFullAccess.into(),
        Sandbox::Permissions("dev".to_owned()),
        Sandbox::Raw(json!({"type": "readOnly", "networkAccess": false})),
        Sandbox::Raw(json!({"type": "somethingNew"})),
        Sandbox::Raw(json!("read-only")),
        Sandbox::Raw(Value::Null),
    ]
}

/// A profile that passes every row that a caller can lift.
fn lifted(sandbox: Sandbox) -> Profile {
    Profile::new()
        .sandbox(sandbox)
        .allow_privileged_escalation()
        .approval(Approval::OnRequest)
}

#[test]
fn nothing_asked_passes_without_a_word() {
    assert_eq!(check(&Profile::new(), None, None), Ok(()));
    let plain = Profile::new().sandbox(Sandbox::read_only());
    assert_eq!(check(&plain, None, Some(&config("model"))), Ok(()));
}

#[test]
fn every_privileged_sandbox_needs_the_callers_word() {
    for sandbox in privileged() {
        let profile = Profile::new()
            .sandbox(sandbox.clone())
            .approval(Approval::OnRequest)
            .allow_unattended_writes();
        let refused = check(&profile, Some("/srv"), None).unwrap_err();
        assert_eq!(refused, PolicyError::EscalationNotAllowed, "{sandbox:?}");
        assert_eq!(
            refused.to_string(),
            "privileged sandbox requires explicit escalation approval"
        );
    }
}

#[test]
fn every_privileged_sandbox_needs_somebody_to_ask() {
    for sandbox in privileged() {
        let profile = lifted(sandbox.clone()).approval(Approval::Never);
        let refused = check(&profile, Some("/srv"), None).unwrap_err();
        assert_eq!(refused, PolicyError::ApprovalRequired, "{sandbox:?}");
        assert_eq!(
            refused.to_string(),
            "privileged sandbox requires non-never approval policy"
        );
        let silent = Profile::new()
            .sandbox(sandbox)
            .allow_privileged_escalation();
        let refused = check(&silent, Some("/srv"), None).unwrap_err();
        assert_eq!(refused, PolicyError::ApprovalRequired);
    }
}

#[test]
fn only_writing_in_the_workspace_may_be_unattended() {
    for sandbox in privileged() {
        let profile = lifted(sandbox.clone())
            .approval(Approval::Never)
            .allow_unattended_writes();
        let result = check(&profile, Some("/srv"), None);
        if sandbox == Sandbox::workspace_write() {
            assert_eq!(result, Ok(()));
        } else {
            assert_eq!(result, Err(PolicyError::ApprovalRequired), "{sandbox:?}");
        }
    }
    let network = WorkspaceWrite {
        network_access: true,
        ..WorkspaceWrite::default()
    };
    let profile = lifted(network.into())
        .approval(Approval::Never)
        .allow_unattended_writes();
    assert_eq!(check(&profile, Some("/srv"), None), Ok(()));
}

#[test]
fn every_privileged_sandbox_needs_a_place() {
    for sandbox in privileged() {
        for cwd in [None, Some(""), Some("  ")] {
            let refused = check(&lifted(sandbox.clone()), cwd, None).unwrap_err();
            assert_eq!(refused, PolicyError::ScopeRequired, "{sandbox:?}");
            assert_eq!(
                refused.to_string(),
                "privileged sandbox requires explicit scope via cwd or writable roots"
            );
        }
    }
}

#[test]
fn one_named_root_is_a_place() {
    let with = |roots: &[&str]| WorkspaceWrite {
        writable_roots: roots.iter().map(ToString::to_string).collect(),
        ..WorkspaceWrite::default()
    };
    assert_eq!(
        check(&lifted(with(&["", "/extra"]).into()), None, None),
        Ok(())
    );
    assert_eq!(
        check(&lifted(with(&["", " "]).into()), None, None),
        Err(PolicyError::ScopeRequired)
    );
    let raw = json!({"type": "workspaceWrite", "writableRoots": ["/extra"]});
    assert_eq!(check(&lifted(Sandbox::Raw(raw)), None, None), Ok(()));
}

#[test]
fn a_sandbox_that_is_none_is_refused_in_the_words_of_the_contract() {
    for value in [json!(null), json!("read-only"), json!(7), json!([])] {
        let refused = check(&lifted(Sandbox::Raw(value)), Some("/srv"), None).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "sandboxPolicy must be an object when provided"
        );
    }
    for value in [json!({}), json!({"type": ""}), json!({"type": 7})] {
        let refused = check(&lifted(Sandbox::Raw(value)), Some("/srv"), None).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "sandboxPolicy.type must be a non-empty string"
        );
    }
    let new = Sandbox::Raw(json!({"type": "somethingNew"}));
    assert_eq!(check(&lifted(new), Some("/srv"), None), Ok(()));
}

#[test]
fn configuration_does_not_lead_around_the_gate() {
    for key in GUARDED_KEYS {
        for key in [
            (*key).to_owned(),
            format!("{key}.below"),
            format!("\"{key}\".below"),
        ] {
            let refused = check(&Profile::new(), Some("/srv"), Some(&config(&key)));
            let bypass = PolicyError::ConfigBypass { key: key.clone() };
            assert_eq!(refused, Err(bypass));
            let allowed = Profile::new().allow_privileged_escalation();
            assert_eq!(check(&allowed, None, Some(&config(&key))), Ok(()));
        }
    }
    for key in ["model", "sandbox_modes", "tools.sandbox_mode", "approval"] {
        assert_eq!(check(&Profile::new(), None, Some(&config(key))), Ok(()));
    }
}

#[test]
fn the_first_row_that_hits_wins() {
    let config = config("sandbox_mode");
    let none = Sandbox::Raw(json!(7));
    let mut profile = Profile::new().sandbox(none);
    let at = |profile: &Profile, cwd| check(profile, cwd, Some(&config)).unwrap_err();
    assert_eq!(at(&profile, None), PolicyError::EscalationNotAllowed);
    profile = profile.allow_privileged_escalation();
    assert_eq!(at(&profile, None), PolicyError::ApprovalRequired);
    profile = profile.approval(Approval::Untrusted);
    assert_eq!(at(&profile, None), PolicyError::ScopeRequired);
    assert!(matches!(
        at(&profile, Some("/srv")),
        PolicyError::InvalidSandbox { .. }
    ));
}

/// What can be granted, from little to much; the same number is the same.
fn sandboxes() -> Vec<(u8, Value)> {
    let workspace = |network: bool| {
        json!({"type": "workspaceWrite", "writableRoots": [], "networkAccess": network,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": false})
    };
    vec![
        (0, json!({"type": "readOnly", "networkAccess": false})),
        (0, json!({"type": "readOnly"})),
        (0, json!("read-only")),
        (1, json!({"type": "readOnly", "networkAccess": true})),
        (2, workspace(false)),
        (3, workspace(true)),
        (
            4,
            json!({"type": "externalSandbox", "networkAccess": "restricted"}),
        ),
        (
            5,
            json!({"type": "externalSandbox", "networkAccess": "enabled"}),
        ),
        (6, json!({"type": "dangerFullAccess"})),
        (6, json!("danger-full-access")),
        (9, json!({"type": "somethingNew"})),
        (9, json!({"networkAccess": false})),
        (9, json!(7)),
        (9, json!({"type": "readOnly", "networkAccess": "perhaps"})),
    ]
}

fn granted(approval: Value, sandbox: Value) -> EffectivePolicy {
    EffectivePolicy {
        approval,
        sandbox,
        ..EffectivePolicy::default()
    }
}

fn is_widened(approval: Approval, sandbox: &Sandbox, granted: &EffectivePolicy) -> bool {
    match check_granted((&approval, sandbox), granted) {
        Ok(()) => false,
        Err(PolicyError::Widened { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_sandbox_is_widened_exactly_when_it_is_more() {
    for (asked_rank, asked) in sandboxes() {
        let Ok(policy) = SandboxPolicy::deserialize(&asked) else {
            continue;
        };
        for (rank, sandbox) in sandboxes() {
            let granted = granted(json!("never"), sandbox.clone());
            assert_eq!(
                is_widened(Approval::Never, &policy.clone().into(), &granted),
                rank > asked_rank,
                "asked {asked}, granted {sandbox}"
            );
        }
    }
}

#[test]
fn more_roots_and_fewer_exclusions_are_more() {
    let limits = |roots: &[&str]| WorkspaceWrite {
        writable_roots: roots.iter().map(ToString::to_string).collect(),
        ..WorkspaceWrite::default()
    };
    let is_more = |asked: WorkspaceWrite, given: &WorkspaceWrite| {
        let value = serde_json::to_value(SandboxPolicy::WorkspaceWrite(given.clone()));
        let granted = granted(json!("never"), value.unwrap());
        is_widened(Approval::Never, &asked.into(), &granted)
    };
    assert!(!is_more(limits(&["/a", "/b"]), &limits(&["/b"])));
    assert!(!is_more(limits(&["/a"]), &limits(&["/a"])));
    assert!(is_more(limits(&["/a"]), &limits(&["/a", "/b"])));
    assert!(is_more(limits(&[]), &limits(&["/b"])));
    let mut network = limits(&["/a"]);
    network.network_access = true;
    assert!(!is_more(network.clone(), &limits(&["/a"])));
    assert!(is_more(network, &limits(&["/b"])));
    let mut closed = limits(&[]);
    closed.exclude_slash_tmp = true;
    assert!(is_more(closed.clone(), &limits(&[])));
    assert!(!is_more(limits(&[]), &closed));
    closed.exclude_slash_tmp = false;
    closed.exclude_tmpdir_env_var = true;
    assert!(is_more(closed, &limits(&[])));
}

#[test]
fn fewer_questions_are_more() {
    let granular = GranularApproval {
        mcp_elicitations: true,
        rules: true,
        sandbox_approval: true,
        request_permissions: false,
        skill_approval: false,
    };
    let words = [
        (1, json!("untrusted")),
        (2, json!("on-request")),
        (2, json!({ "granular": granular })),
        (3, json!("never")),
        (9, json!("sometimes")),
        (9, json!({"granular": 7})),
    ];
    let asked = [
        (1, Approval::Untrusted),
        (2, Approval::OnRequest),
        (2, Approval::Granular(granular)),
        (3, Approval::Never),
    ];
    for (asked_rank, asked) in asked {
        for (rank, word) in &words {
            let granted = granted(word.clone(), json!({"type": "readOnly"}));
            assert_eq!(
                is_widened(asked, &Sandbox::read_only(), &granted),
                *rank > asked_rank,
                "asked {asked:?}, granted {word}"
            );
        }
    }
}

#[test]
fn a_server_that_says_nothing_has_widened_nothing() {
    let silent = EffectivePolicy::default();
    let asked = Sandbox::read_only();
    assert!(!is_widened(Approval::Untrusted, &asked, &silent));
}

#[test]
fn what_nobody_can_compare_is_more_unless_it_is_the_very_same() {
    let asked = json!({"type": "somethingNew", "depth": 1});
    let of = |sandbox: &Value| granted(json!("never"), sandbox.clone());
    let raw = Sandbox::Raw(asked.clone());
    assert!(!is_widened(Approval::Never, &raw, &of(&asked)));
    assert!(is_widened(
        Approval::Never,
        &raw,
        &of(&json!({"type": "readOnly"}))
    ));
    let named = Sandbox::Permissions("dev".to_owned());
    assert!(!is_widened(
        Approval::Never,
        &named,
        &of(&json!({"type": "dangerFullAccess"}))
    ));
}

#[test]
fn a_widening_names_both_sides() {
    let granted = granted(json!("never"), json!({"type": "dangerFullAccess"}));
    let refused = check_granted((&Approval::Never, &Sandbox::read_only()), &granted);
    let Err(PolicyError::Widened { asked, granted }) = refused else {
        panic!("{refused:?}");
    };
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let granted: Value = serde_json::from_str(&granted).unwrap();
    assert_eq!(
        asked,
        json!({"approvalPolicy": "never", "sandbox": {"type": "readOnly", "networkAccess": false}})
    );
    assert_eq!(
        granted,
        json!({"approvalPolicy": "never", "sandbox": {"type": "dangerFullAccess"}})
    );
}
