//! Every limit takes effect or fails the spawn by its name.

use std::time::Duration;

use turnlane_process::{LimitMechanism, Limits, Sandbox, SpawnErrorKind, Spec, StreamName, Until};

use crate::containment_host::{Host, User, am_root};
use crate::support::{containment, end_of, listen, services, sh, start, text};

fn limited(script: &str, limits: Limits) -> Spec {
    Spec {
        limits,
        ..sh(script)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_may_use_is_what_it_was_given() {
    let none = Limits::default();
    let cases = [
        ("ulimit -c", none, "0"),
        (
            "ulimit -t",
            Limits {
                cpu_time: Some(Duration::from_millis(2500)),
                ..none
            },
            "3",
        ),
        (
            "ulimit -v",
            Limits {
                address_space: Some(1 << 30),
                ..none
            },
            "1048576",
        ),
        (
            "ulimit -n",
            Limits {
                open_files: Some(17),
                ..none
            },
            "17",
        ),
        (
            "ulimit -f",
            Limits {
                file_size: Some(4096),
                ..none
            },
            "8",
        ),
    ];
    for service in services() {
        for (script, limits, expected) in cases {
            let process = start(&service, limited(script, limits)).await;
            let said = text(&listen(&process).await, StreamName::Stdout);
            assert_eq!(said.trim(), expected, "{script}");
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_exceeds_its_limits_fails_or_ends() {
    let folder = tempfile::tempdir().unwrap();
    let none = Limits::default();
    let fill = format!("head -c 8192 /dev/zero > \"{}/f\"", folder.path().display());
    for service in services() {
        let limits = Limits {
            file_size: Some(4096),
            ..none
        };
        let process = start(&service, limited(&fill, limits)).await;
        let status = end_of(&process, Until::Closed).await;
        assert_ne!(status.code, 0);
        let written = std::fs::metadata(folder.path().join("f")).unwrap().len();
        assert_eq!(written, 4096);
        let limits = Limits {
            cpu_time: Some(Duration::from_secs(1)),
            ..none
        };
        let process = start(&service, limited("while :; do :; done", limits)).await;
        let status = end_of(&process, Until::Closed).await;
        assert!(
            matches!(status.signal, Some(libc::SIGXCPU | libc::SIGKILL)),
            "{status:?}"
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_cannot_be_applied_fails_the_spawn_by_its_name() {
    let none = Limits::default();
    let mut cases = vec![(
        "open_files",
        Limits {
            open_files: Some(u64::MAX - 1),
            ..none
        },
    )];
    // As an ordinary user it takes effect; as root it would not.
    if rustix::process::geteuid().is_root() {
        cases.push((
            "processes",
            Limits {
                processes: Some(5),
                ..none
            },
        ));
    }
    for service in services() {
        let controllers = &service.report().cgroup_controllers;
        for (name, limits) in [
            (
                "memory",
                Limits {
                    memory_max: Some(1 << 30),
                    ..none
                },
            ),
            (
                "pids",
                Limits {
                    pids_max: Some(5),
                    ..none
                },
            ),
        ] {
            if !controllers.iter().any(|found| found == name) {
                cases.push((name, limits));
            }
        }
        for (name, limits) in &cases {
            let spec = Spec {
                containment: containment(&service),
                ..limited("true", *limits)
            };
            let error = service.spawn(spec).await.unwrap_err();
            assert_eq!(error.kind, SpawnErrorKind::ResourceLimit, "{name}: {error}");
            assert!(error.to_string().contains(name), "{name}: {error}");
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_on_processes_ends_a_fork_loop_where_the_machine_has_the_controller() {
    for service in services() {
        let has = service
            .report()
            .cgroup_controllers
            .iter()
            .any(|found| found == "pids");
        if !has {
            turnlane_testkit::skipped(format_args!(
                "pids_max under {}: no controller",
                service.report().containment.name()
            ));
            continue;
        }
        let limits = Limits {
            pids_max: Some(3),
            ..Limits::default()
        };
        let many = "for i in 1 2 3 4 5 6; do sleep 1000 & done; echo up; wait";
        let process = start(&service, limited(many, limits)).await;
        let status = end_of(&process, Until::Closed).await;
        assert_ne!(
            status.code, 0,
            "the shell cannot fork as often as it wants to"
        );
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_process_is_ended_before_the_service_when_memory_runs_out() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let own = std::fs::read_to_string(FILE).unwrap();
    let raised = own.trim().parse::<i32>().unwrap().max(500).to_string();
    let cases = [
        (Sandbox::ReadOnly { network: true }, raised.as_str()),
        (Sandbox::ReadOnly { network: false }, raised.as_str()),
        (Sandbox::DangerFullAccess, own.trim()),
    ];
    for service in services() {
        assert_eq!(service.report().default_limits.oom_score, Ok(()));
        for (sandbox, expected) in &cases {
            // The grandchild too, and neither can take it back.
            let script = format!("echo 0 2>/dev/null >{FILE}; (setsid cat {FILE})");
            let script = match sandbox {
                Sandbox::DangerFullAccess => format!("(setsid cat {FILE})"),
                _ => script,
            };
            let spec = Spec {
                sandbox: sandbox.clone(),
                ..sh(&script)
            };
            let process = start(&service, spec).await;
            let said = text(&listen(&process).await, StreamName::Stdout);
            assert_eq!(said.trim(), *expected, "{sandbox:?}");
        }
        service.stop().await;
    }
    assert_eq!(std::fs::read_to_string(FILE).unwrap(), own);
}

#[tokio::test(flavor = "multi_thread")]
async fn default_limits_hold_by_what_the_report_says() {
    for service in services() {
        let report = service.report();
        let pids = report.default_limits.pids_max.clone().unwrap();
        assert_eq!(pids.max, 4096);
        let kind = report.containment.name();
        let path = match pids.by {
            Ok(LimitMechanism::Cgroup) => report.cgroup_root.clone(),
            Ok(LimitMechanism::UserNamespace) => None,
            Err(reason) => {
                assert!(reason.contains("`pids`"), "{reason}");
                turnlane_testkit::skipped(format_args!("pids_max under {kind}: {reason}"));
                continue;
            }
        };
        let spec = Spec {
            sandbox: Sandbox::WorkspaceWrite {
                roots: Vec::new(),
                network: false,
                exclude_tmpdir: false,
                exclude_slash_tmp: false,
            },
            ..sh(&match path {
                Some(root) => format!("cat \"{}\"/*/pids.max", root.display()),
                None => "exec bash -c 'ulimit -Hu'".to_owned(),
            })
        };
        let process = start(&service, spec).await;
        let said = text(&listen(&process).await, StreamName::Stdout);
        assert!(said.lines().any(|line| line == "4096"), "{kind}: {said}");
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_processes_in_a_user_namespace_counts_that_namespace_only() {
    let user = if am_root() { User::Nobody } else { User::Me };
    // 80 processes of the same user are outside.
    let Some(mut host) = Host::start(user, "reaper", 20, "pipe").await else {
        return;
    };
    // Says how many it forked when it has done so, or when it cannot go on.
    let fork = |count: usize| {
        format!(
            "bounded 40 exec sh -c 'trap \"echo \\$c\" EXIT; c=0; \
             while [ $c -lt {count} ]; do sleep 1000 & c=$((c+1)); done'"
        )
    };
    assert_eq!(host.ask(&fork(20)).await, "20");
    // Another namespace, another count.
    assert_eq!(host.ask(&fork(20)).await, "20");
    let forked: usize = host.ask(&fork(60)).await.parse().unwrap();
    assert!((20..40).contains(&forked), "{forked} could be forked");
    let unlimited = host.ask("confined workspace-write ulimit -Hu").await;
    assert_eq!(unlimited, "4096");
}
