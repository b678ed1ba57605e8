//! Every approval policy with every sandbox and every place.
//!
//! The invariant here: each row is written out, and what was asked about is both declined and
//! accepted, so that an answer decides and nothing else.

use turnlane_protocol::policy::{GranularApproval, NetworkAccess};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Applied,
    Asked,
    Refused,
}

use Expected::{Applied, Asked, Refused};

const fn granular(sandbox_approval: bool) -> ApprovalPolicy {
    ApprovalPolicy::Granular(GranularApproval {
        mcp_elicitations: true,
        rules: true,
        sandbox_approval,
        request_permissions: true,
        skill_approval: true,
    })
}

/// Inside, outside, protected.
const PLACES: [&str; 3] = ["new", "../outside/new", ".git/new"];

#[tokio::test]
async fn every_policy_meets_every_sandbox_and_every_place() {
    let read_only = || SandboxPolicy::ReadOnly {
        network_access: false,
    };
    let external = || SandboxPolicy::ExternalSandbox {
        network_access: NetworkAccess::Enabled,
    };
    let full = || SandboxPolicy::DangerFullAccess;
    for (approval, sandbox, expected) in [
        (
            ApprovalPolicy::Untrusted,
            read_only(),
            [Asked, Asked, Asked],
        ),
        (
            ApprovalPolicy::Untrusted,
            workspace(),
            [Asked, Asked, Asked],
        ),
        (ApprovalPolicy::Untrusted, full(), [Asked, Asked, Asked]),
        (ApprovalPolicy::Untrusted, external(), [Asked, Asked, Asked]),
        (
            ApprovalPolicy::OnRequest,
            read_only(),
            [Asked, Asked, Asked],
        ),
        (
            ApprovalPolicy::OnRequest,
            workspace(),
            [Applied, Asked, Asked],
        ),
        (
            ApprovalPolicy::OnRequest,
            full(),
            [Applied, Applied, Applied],
        ),
        (
            ApprovalPolicy::OnRequest,
            external(),
            [Applied, Applied, Applied],
        ),
        (
            ApprovalPolicy::Never,
            read_only(),
            [Refused, Refused, Refused],
        ),
        (
            ApprovalPolicy::Never,
            workspace(),
            [Applied, Refused, Refused],
        ),
        (ApprovalPolicy::Never, full(), [Applied, Applied, Applied]),
        (
            ApprovalPolicy::Never,
            external(),
            [Applied, Applied, Applied],
        ),
        (granular(true), read_only(), [Asked, Asked, Asked]),
        (granular(true), workspace(), [Applied, Asked, Asked]),
        (granular(true), full(), [Applied, Applied, Applied]),
        (granular(true), external(), [Applied, Applied, Applied]),
        (granular(false), read_only(), [Refused, Refused, Refused]),
        (granular(false), workspace(), [Applied, Refused, Refused]),
        (granular(false), full(), [Applied, Applied, Applied]),
        (granular(false), external(), [Applied, Applied, Applied]),
    ] {
        let mut stage = Stage::with(approval, sandbox.clone());
        for (place, expected) in PLACES.into_iter().zip(expected) {
            let case = format!("{approval:?} {sandbox:?} {place}");
            meet(&mut stage, place, expected, &case).await;
        }
    }
}

async fn meet(stage: &mut Stage, place: &str, expected: Expected, case: &str) {
    let patch = format!("*** Add File: {place}\n+x");
    if expected == Asked {
        let done = stage.answer(Decision::Decline).patch(&patch).await;
        assert_eq!(done, failed("patch rejected by user"), "{case}");
        assert_eq!(stage.read(place), None, "{case}");
        stage.answer(Decision::Accept);
    }
    let done = stage.patch(&patch).await.unwrap();
    assert_eq!(
        stage.said.iter().any(|line| line.starts_with("asked")),
        expected == Asked,
        "{case}"
    );
    match expected {
        Applied | Asked => {
            assert!(done.success, "{case}: {}", done.text);
            assert_eq!(stage.read(place).as_deref(), Some("x\n"), "{case}");
        }
        Refused => {
            let text = "refused: needs approval and approvalPolicy is never";
            assert_eq!(done.text, text, "{case}");
            assert_eq!(
                stage.course(),
                ["started:inProgress", "completed:declined"],
                "{case}"
            );
            assert_eq!(stage.read(place), None, "{case}");
        }
    }
}

#[tokio::test]
async fn one_file_outside_makes_the_whole_patch_outside() {
    let mut stage = Stage::with(ApprovalPolicy::Never, workspace());
    stage.write("a", "one\n");
    for patch in [
        "*** Add File: b\n+x\n*** Add File: ../outside/b\n+x",
        "*** Update File: a\n*** Move to: ../outside/a\n@@\n-one\n+two",
        "*** Update File: a\n*** Move to: .git/a\n@@\n-one\n+two",
    ] {
        let done = stage.patch(patch).await.unwrap();
        assert!(done.text.starts_with("refused: "), "{}", done.text);
    }
    assert_eq!(stage.read("a").as_deref(), Some("one\n"));
    assert_eq!(stage.read("b"), None);
    assert!(stage.strays().is_empty());
}

#[tokio::test]
async fn paths_are_judged_by_where_they_lead() {
    use std::os::unix::fs::symlink;
    let mut stage = Stage::with(ApprovalPolicy::Never, workspace());
    symlink(&stage.outside, stage.cwd.join("door")).unwrap();
    symlink(stage.outside.join("far"), stage.cwd.join("link")).unwrap();
    symlink("sub", stage.cwd.join("near")).unwrap();
    std::fs::create_dir(stage.cwd.join("sub")).unwrap();
    let absolute = stage.outside.join("x").display().to_string();
    for path in [
        "door/x",
        "door/deep/er/x",
        "link",
        "near/../../outside/x",
        "door/../outside/x",
        "../outside/x",
        &absolute,
        ".git/hooks/pre-commit",
        "sub/.git/x",
        "near/../.git/x",
        ".turnlane/config.toml",
    ] {
        let done = stage
            .patch(&format!("*** Add File: {path}\n+x"))
            .await
            .unwrap();
        assert!(done.text.starts_with("refused: "), "{path}: {}", done.text);
    }
    assert!(stage.strays().is_empty());
    let absolute = stage.cwd.join("abs").display().to_string();
    for path in [
        "near/x",
        "sub/../y",
        "../project/z",
        &absolute,
        "gone/../deep/x",
    ] {
        let done = stage
            .patch(&format!("*** Add File: {path}\n+x"))
            .await
            .unwrap();
        assert!(done.success, "{path}: {}", done.text);
    }
    assert_eq!(stage.read("sub/x").as_deref(), Some("x\n"));
    assert_eq!(stage.read("deep/x").as_deref(), Some("x\n"));
}
