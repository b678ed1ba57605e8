//! Many processes: what they cost, how fast they end, what they leave behind.

use tokio::time::Instant;
use turnlane_process::{ContainmentKind, End, ProcessService, SpawnErrorKind, Spec, Until};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{
    KINDS, PIPE, PTY, alone, containment, count_from, end_of, open_descriptors, resident_kb, say,
    service_of, services, sh, sh_with, start,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_processes_are_cheap_listed_and_ended_at_once() {
    let me = "many::a_thousand_idle_processes_are_cheap_listed_and_ended_at_once";
    for kind in KINDS {
        for io in ["pipe", "pty"] {
            let vars = [
                ("TURNLANE_PROCESS_KIND", kind.name()),
                ("TURNLANE_PROCESS_IO", io),
            ];
            if alone(me, &vars).await {
                return idle().await;
            }
        }
    }
}

/// Of the kind and with the streams that the environment names.
async fn idle() {
    let asked = |name: &str| std::env::var(name).unwrap_or_default();
    let kind = asked("TURNLANE_PROCESS_KIND");
    let kind = KINDS.into_iter().find(|known| known.name() == kind);
    let Some(service) = service_of(kind.unwrap_or(ContainmentKind::Reaper)) else {
        return;
    };
    let name = asked("TURNLANE_PROCESS_IO");
    let io = if name == "pty" { PTY } else { PIPE };
    let count = count_from("TURNLANE_PROCESS_IDLE", 1000);
    // Warm: the first one pays for what all share.
    drop(start(&service, sh_with("exec sleep 1000", io)).await);
    let before_kb = resident_kb();
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(start(&service, sh_with("exec sleep 1000", io)).await);
    }
    let grown = resident_kb().saturating_sub(before_kb) * 1024;
    assert!(service.list().len() >= count);
    let begun = Instant::now();
    for process in &all {
        process.end(End::Force);
    }
    let told = begun.elapsed();
    for process in &all {
        end_of(process, Until::Closed).await;
    }
    let took = begun.elapsed();
    let each = grown / count;
    say(&format!(
        "{count} idle, {}, {name}: {each} bytes each; asked to end in {told:?}, all ended in {took:?}",
        service.report().containment.name(),
    ));
    assert!(each <= 15_000, "{each} bytes each");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spawns_leave_no_descriptor_cgroup_or_zombie_behind() {
    let me = "many::spawns_leave_no_descriptor_cgroup_or_zombie_behind";
    if !alone(me, &[]).await {
        return;
    }
    let count = count_from("TURNLANE_PROCESS_SPAWNS", 1500);
    for service in services() {
        // Warm: kept cgroups, spare holders, the runtime's own.
        for _ in 0..8 {
            end_of(&start(&service, sh("true")).await, Until::Closed).await;
        }
        let descriptors = open_descriptors();
        let directories = cgroup_directories(&service);
        for at in 0..count / 3 {
            if at % 3 == 0 {
                let missing = Spec {
                    containment: containment(&service),
                    ..Spec::new(["/nowhere/at/all"], "/")
                };
                let error = service.spawn(missing).await.unwrap_err();
                assert_eq!(error.kind, SpawnErrorKind::ProgramNotFound);
            } else {
                let io = if at % 2 == 0 { PIPE } else { PTY };
                let process = start(&service, sh_with("exit 3", io)).await;
                assert_eq!(end_of(&process, Until::Closed).await.code, 3);
            }
        }
        eventually("descriptors as before", DEADLINE, async || {
            open_descriptors() <= descriptors
        })
        .await
        .unwrap_or_else(|error| panic!("{error}: {} > {descriptors}", open_descriptors()));
        eventually("no zombies", DEADLINE, async || zombies() == 0)
            .await
            .unwrap();
        // Empty ones are kept for reuse, at most 64.
        let kept = cgroup_directories(&service);
        assert!(kept <= directories.max(64), "{kept} cgroups");
        service.stop().await;
        assert_eq!(cgroup_directories(&service), 0);
    }
}

fn cgroup_directories(service: &ProcessService) -> usize {
    let Some(root) = &service.report().cgroup_root else {
        return 0;
    };
    let below = std::fs::read_dir(root).into_iter().flatten().flatten();
    below.filter(|entry| entry.path().is_dir()).count()
}

/// Children of this process that ended and were not reaped.
fn zombies() -> usize {
    let me = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats =
        processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let rest = stat.rsplit(") ").next().unwrap_or_default();
            let mut fields = rest.split(' ');
            fields.next() == Some("Z") && fields.next() == Some(me.as_str())
        })
        .count()
}
