//! Every limit takes effect or fails the spawn by its name.

use std::time::Duration;

use turnlane_process::{Limits, SpawnErrorKind, Spec, StreamName, Until};

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
    let fill = format!("head -c 8192 /dev/zero > {}/f", folder.path().display());
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
