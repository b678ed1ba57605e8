//! What happens when the keeper dies, and what it does when the service dies.

use super::support::*;
use super::*;

fn keeper_pid(spawner: &Spawner) -> i32 {
    spawner.shared.link().unwrap().keeper.pid()
}

#[tokio::test]
async fn when_the_keeper_is_killed_running_processes_are_lost_and_the_next_ones_are_not() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some((spawner, _)) = spawner(kind) else {
            continue;
        };
        for _ in 0..2 {
            let mark = mark("lost");
            let (ended, _ends) = start(&spawner, &["sh", "-c", "exit 3"], PIPE).await;
            let (running, _ends) = start(&spawner, &["sh", "-c", TREE, &mark], PIPE).await;
            all_up(&mark, 5).await;
            assert_eq!(exit(&ended).await.how, How::Code(3));
            let first = keeper_pid(&spawner);
            kill9(first);
            assert_eq!(exit(&running).await.how, How::Lost, "{}", kind.name());
            empty(&running).await;
            nobody_left(&mark).await;
            assert_eq!(exit(&ended).await.how, How::Code(3));

            let (next, _ends) = start(&spawner, &["sh", "-c", "exit 4"], PIPE).await;
            assert_eq!(exit(&next).await.how, How::Code(4));
            assert_ne!(keeper_pid(&spawner), first);
        }
    }
}

#[tokio::test]
async fn a_process_that_outlived_its_leader_is_ended_when_the_keeper_is_killed() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some((spawner, _)) = spawner(kind) else {
            continue;
        };
        let mark = mark("outlived");
        let script = "setsid sh -c 'sleep 1000; : $0' $0 & exit 6";
        let (running, _ends) = start(&spawner, &["sh", "-c", script, &mark], PIPE).await;
        assert_eq!(exit(&running).await.how, How::Code(6));
        all_up(&mark, 1).await;
        kill9(keeper_pid(&spawner));
        empty(&running).await;
        nobody_left(&mark).await;
        assert_eq!(exit(&running).await.how, How::Code(6));
    }
}

#[tokio::test]
async fn descriptors_to_hold_are_held_by_the_keeper_and_let_go_at_the_stop() {
    use std::io::Read;
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        if spawner(kind).is_none() {
            continue;
        }
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut options = Options {
            containment: Some(kind),
            hold: vec![theirs.into()],
            ..Options::default()
        };
        let (spawner, _) = Spawner::start(&mut options, Mark::choose()).unwrap();
        assert!(options.hold.is_empty());
        ours.set_nonblocking(true).unwrap();
        let held = |ours: &mut std::os::unix::net::UnixStream| ours.read(&mut [0]).is_err();
        assert!(held(&mut ours));
        spawner.stop();
        let gone = async || !held(&mut ours);
        eventually("it to be let go", DEADLINE, gone).await.unwrap();
    }
}

#[tokio::test]
async fn spawns_go_on_while_keepers_are_killed() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some((spawner, _)) = spawner(kind) else {
            continue;
        };
        let spawner = Arc::new(spawner);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let spawner = Arc::clone(&spawner);
            tasks.spawn(async move {
                let mut ends = Vec::new();
                for _ in 0..40 {
                    let (request, _ends) = request(&["sh", "-c", "exit 9"], PIPE);
                    match spawner.spawn(request).await {
                        Ok(running) => ends.push(exit(&running).await.how),
                        // Only a request that a dying keeper had already taken.
                        Err(error) => assert!(kind == ContainmentKind::Reaper, "{error}"),
                    }
                }
                ends
            });
        }
        for _ in 0..5 {
            let alive = async || spawner.shared.link().is_some();
            eventually("a keeper", DEADLINE, alive).await.unwrap();
            if let Some(kept) = spawner.shared.link() {
                kill9(kept.keeper.pid());
                let replaced = async || spawner.shared.generation() > kept.generation;
                eventually("it to be missed", DEADLINE, replaced)
                    .await
                    .unwrap();
            }
        }
        let ends = tasks.join_all().await.concat();
        assert!(
            ends.iter()
                .all(|how| matches!(how, How::Code(9) | How::Lost)),
            "{ends:?}"
        );
        assert!(
            ends.iter().filter(|how| **how == How::Code(9)).count() > 80,
            "{ends:?}"
        );
    }
}
