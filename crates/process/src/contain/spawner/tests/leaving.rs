//! What is left behind: by ends, by failed and cancelled spawns, by a stop.

use super::support::*;
use super::*;

/// Waits until every zombie is reaped and every cgroup given back.
async fn settled(spawner: &Spawner) {
    let clean = async || {
        let given_back = spawner
            .shared
            .tree()
            .is_none_or(|tree| tree.idle_len() == tree.made_len());
        zombies().is_empty() && given_back
    };
    eventually("everything to be given back", DEADLINE, clean)
        .await
        .unwrap();
}

#[tokio::test]
async fn two_thousand_spawns_a_third_failing_leave_nothing_behind() {
    let test = "contain::spawner::tests::leaving::\
                two_thousand_spawns_a_third_failing_leave_nothing_behind";
    if !alone(test).await {
        return;
    }
    for (spawner, containment) in every_kind() {
        let round = async |number: usize| {
            let program = if number.is_multiple_of(3) {
                "/no/such/program"
            } else {
                "true"
            };
            let (mut request, _ends) = request(&[program], PIPE);
            request.containment = containment;
            match spawner.spawn(request).await {
                Ok(running) => {
                    assert_eq!(program, "true");
                    assert_eq!(exit(&running).await.how, How::Code(0));
                }
                Err(error) => {
                    assert_eq!(program, "/no/such/program");
                    assert_eq!(error.kind, SpawnErrorKind::ProgramNotFound);
                }
            }
        };
        round(0).await;
        round(1).await;
        settled(&spawner).await;
        let before = open_descriptors();
        for number in 0..2000 {
            round(number).await;
        }
        settled(&spawner).await;
        assert_eq!(open_descriptors(), before);
        if let Some(tree) = spawner.shared.tree() {
            // One after the other: one directory, used again and again.
            assert!(tree.made_len() <= 1, "{}", tree.made_len());
        }
    }
}

#[tokio::test]
async fn orphans_that_died_are_reaped() {
    let test = "contain::spawner::tests::leaving::orphans_that_died_are_reaped";
    if !alone(test).await {
        return;
    }
    for (spawner, containment) in every_kind() {
        let script = "(setsid sleep 1000 &); (setsid sh -c 'exit 0' &); setsid sleep 0.01 & exit 0";
        if containment == Containment::Group && spawner.shared.tree().is_none() {
            continue; // They are not ours to end.
        }
        let mut all = Vec::new();
        for _ in 0..20 {
            let (mut request, ends) = request(&["sh", "-c", script], PIPE);
            request.containment = containment;
            all.push((spawner.spawn(request).await.unwrap(), ends));
        }
        for (running, _) in &all {
            exit(running).await;
        }
        if containment == Containment::Group {
            spawner.shared.tree().unwrap().kill_all();
        }
        drop(all);
        let nobody = async || {
            spawner.shared.look();
            zombies().is_empty()
        };
        eventually("no zombie", DEADLINE, nobody).await.unwrap();
        spawner.stop();
        assert!(zombies().is_empty(), "{:?}", zombies());
    }
}

#[tokio::test]
async fn a_cgroup_is_used_again_and_at_most_64_are_kept() {
    let Some((spawner, _)) = spawner(ContainmentKind::Cgroup) else {
        return;
    };
    let tree = Arc::clone(spawner.shared.tree().unwrap());
    for _ in 0..10 {
        let (running, _ends) = start(&spawner, &["true"], PIPE).await;
        exit(&running).await;
    }
    settled_tree(&tree).await;
    assert_eq!(tree.made_len(), 1);
    let mut all = Vec::new();
    for _ in 0..70 {
        all.push(start(&spawner, &["sleep", "1000"], PIPE).await);
    }
    assert_eq!((tree.made_len(), tree.idle_len()), (70, 0));
    all.clear();
    let removed = async || (tree.made_len(), tree.idle_len()) == (0, 0);
    eventually("those that were killed to be removed", DEADLINE, removed)
        .await
        .unwrap();
    for _ in 0..70 {
        all.push(start(&spawner, &["sh", "-c", "read x"], STDIN).await);
    }
    for (running, ends) in &mut all {
        ends.stdin = None;
        assert_eq!(exit(running).await.how, How::Code(1));
    }
    drop(all);
    let kept = async || (tree.made_len(), tree.idle_len()) == (64, 64);
    eventually("64 to be kept", DEADLINE, kept).await.unwrap();
}

#[tokio::test]
async fn a_cgroup_that_was_there_when_everybody_was_ended_is_not_used_again() {
    let Some((spawner, _)) = spawner(ContainmentKind::Cgroup) else {
        return;
    };
    let tree = Arc::clone(spawner.shared.tree().unwrap());
    let bounds = Bounds::default;
    let (idle, _dir) = tree.take(bounds()).unwrap();
    let (taken, _dir) = tree.take(bounds()).unwrap();
    drop(idle);
    assert_eq!((tree.made_len(), tree.idle_len()), (2, 1));
    tree.kill_all();
    drop(taken);
    tree.tidy();
    assert_eq!((tree.made_len(), tree.idle_len()), (0, 0));
}

async fn settled_tree(tree: &crate::contain::cgroup::Tree) {
    let given_back = async || tree.idle_len() == tree.made_len();
    eventually("the cgroup to be given back", DEADLINE, given_back)
        .await
        .unwrap();
}

#[tokio::test]
async fn cgroups_a_process_made_are_searched_ended_and_removed() {
    let Some((spawner, found)) = spawner(ContainmentKind::Cgroup) else {
        return;
    };
    let parent = found.cgroup_root.unwrap();
    let mark = mark("nested");
    let script = "cd \"$1\" && d=$(echo p*)/inner/most && mkdir -p $d && \
                  sh -c 'echo $$ > $1/cgroup.procs; sleep 1000; : $0' $0 $d & \
                  echo $$; sleep 1000; : $0";
    let path = parent.to_str().unwrap();
    let (running, ends) = start(&spawner, &["sh", "-c", script, &mark, path], PIPE).await;
    first_line(&ends).await;
    let inside = async || {
        let inner = std::fs::read_to_string(parent.join("p0/inner/most/cgroup.procs"));
        inner.is_ok_and(|pids| !pids.is_empty()) && marked(&mark).len() == 2
    };
    eventually("somebody in the inner cgroup", DEADLINE, inside)
        .await
        .unwrap();
    let members = running.members();
    assert!(marked(&mark).iter().all(|pid| members.contains(pid)));
    running.kill();
    exit(&running).await;
    empty(&running).await;
    nobody_left(&mark).await;
    drop(running);
    let tree = Arc::clone(spawner.shared.tree().unwrap());
    let removed = async || tree.made_len() == 0;
    eventually("the cgroup to be removed", DEADLINE, removed)
        .await
        .unwrap();
}

#[tokio::test]
async fn letting_go_of_a_process_ends_it() {
    for (spawner, containment) in every_kind() {
        let mark = mark("drop");
        let script = "sh -c 'sleep 1000; : $0' $0 & sleep 1000; : $0";
        let (mut request, _ends) = request(&["sh", "-c", script, &mark], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        all_up(&mark, 2).await;
        drop(running);
        nobody_left(&mark).await;
    }
}

#[tokio::test]
async fn a_cancelled_spawn_leaves_nothing_behind() {
    for (spawner, containment) in every_kind() {
        let mark = mark("cancel");
        for polls in 0..20 {
            let (mut request, _ends) = request(&["sh", "-c", "sleep 1000; : $0", &mark], PIPE);
            request.containment = containment;
            let mut spawn = Box::pin(spawner.spawn(request));
            for _ in 0..polls {
                let polled = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(spawn.as_mut().poll(cx).is_ready())
                });
                if polled.await {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(spawn);
        }
        nobody_left(&mark).await;
        if let Some(tree) = spawner
            .shared
            .tree()
            .filter(|_| containment == Containment::Tree)
        {
            settled_tree(tree).await;
        }
    }
}

#[tokio::test]
async fn a_stop_ends_everybody_removes_the_cgroups_and_refuses_spawns() {
    for (spawner, containment) in every_kind() {
        let parent = spawner.shared.tree().map(|tree| tree.path().to_owned());
        assert!(parent.as_ref().is_none_or(|parent| parent.is_dir()));
        let mark = mark("stop");
        let (mut request, _ends) = request(&["sh", "-c", TREE, &mark], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        all_up(&mark, 5).await;
        if parent.is_none() && containment == Containment::Group {
            spawner.stop();
            assert_eq!(exit(&running).await.how, How::Signal(libc::SIGKILL));
            kill_escaped(&mark);
        }
        spawner.stop();
        nobody_left(&mark).await;
        assert!(parent.is_none_or(|parent| !parent.exists()));
        exit(&running).await;
        let (request, _ends) = self::request(&["true"], PIPE);
        spawner.spawn(request).await.unwrap_err();
        spawner.stop();
    }
}

#[tokio::test]
async fn cgroups_of_a_service_that_crashed_are_removed_by_the_next_one() {
    let Some((spawner, found)) = spawner(ContainmentKind::Cgroup) else {
        return;
    };
    let parent = found.cgroup_root.unwrap();
    let base = parent.parent().unwrap();
    // A pid nobody can have, and ours, which lives.
    let stale = base.join("turnlane-2147483646-test");
    let ours = base.join(format!("turnlane-{}-test", std::process::id()));
    std::fs::create_dir_all(stale.join("p0/deep")).unwrap();
    std::fs::create_dir_all(ours.join("p0")).unwrap();
    let (next, _) = self::spawner(ContainmentKind::Cgroup).unwrap();
    assert!(!stale.exists() && ours.exists() && parent.exists());
    std::fs::remove_dir(ours.join("p0")).unwrap();
    std::fs::remove_dir(&ours).unwrap();
    drop((spawner, next));
}

#[tokio::test]
async fn without_a_free_descriptor_an_end_still_ends_and_a_spawn_fails() {
    let test = "contain::spawner::tests::leaving::\
                without_a_free_descriptor_an_end_still_ends_and_a_spawn_fails";
    if !alone(test).await {
        return;
    }
    // Nothing is let go before the end: it would free descriptors in the background.
    let spawners = every_kind();
    let mut kept = Vec::new();
    for (spawner, containment) in &spawners {
        let containment = *containment;
        let kind = spawner.kind.name();
        let (mut request, _ends) = request(&["sh", "-c", "sleep 1000 & sleep 1000"], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        let (mut request, _ends) = self::request(&["true"], PIPE);
        request.containment = containment;
        let mut all = Vec::new();
        let full = loop {
            match std::fs::File::open("/dev/null") {
                Ok(file) => all.push(file),
                Err(error) => break error,
            }
        };
        assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
        let failed = spawner.spawn(request).await.unwrap_err();
        running.kill();
        let ended = exit(&running).await;
        drop(all);
        assert_eq!(failed.os_error, Some(libc::EMFILE), "{kind}: {failed}");
        assert_eq!(
            failed.kind,
            SpawnErrorKind::ResourceLimit,
            "{kind}: {failed}"
        );
        assert_eq!(ended.how, How::Signal(libc::SIGKILL), "{kind}");
        empty(&running).await;
        kept.push(running);
        let (mut request, _ends) = self::request(&["true"], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        assert_eq!(exit(&running).await.how, How::Code(0), "{kind}");
        kept.push(running);
    }
}
