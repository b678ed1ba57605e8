//! Every short interleaving of everything that can happen to a lane.
//!
//! The invariant here: nothing is left out below the depth that is named. States that were reached
//! before are not entered again, since what can happen from them was looked at already.
//!
//! What is checked on every step is in `watch`; here stands what must hold of whole paths.

use std::collections::HashSet;
use std::rc::Rc;

use super::moves::{Bounds, End, Family, Move};
use super::watch::Broken;
use super::world::{Ask, Named, Node, OpIs, RowIs, SlotIs};
use crate::lane::event::{AfterReconcile, HookVerdict};

/// How a state was reached.
struct Trail {
    step: Move,
    before: Option<Rc<Trail>>,
}

/// What an exploration has seen.
#[derive(Debug)]
struct Seen {
    states: usize,
    steps: usize,
}

fn told(trail: Option<&Rc<Trail>>) -> Vec<Move> {
    let mut steps = Vec::new();
    let mut at = trail;
    while let Some(trail) = at {
        steps.push(trail.step);
        at = trail.before.as_ref();
    }
    steps.reverse();
    steps
}

/// Looks at every state that is at most so many steps away from one of the first.
fn explore(first: Vec<Node>, bounds: &Bounds, depth: usize) -> Seen {
    let mut known = HashSet::new();
    let mut seen = Seen {
        states: 0,
        steps: 0,
    };
    let mut level: Vec<(Node, Option<Rc<Trail>>)> = Vec::new();
    for node in first {
        if known.insert(node.fingerprint()) {
            level.push((node, None));
        }
    }
    for _ in 0..depth {
        let mut next = Vec::new();
        for (node, trail) in level {
            seen.states += 1;
            if let Err(rule) = whole_paths(&node) {
                let steps = told(trail.as_ref());
                panic!("{rule}\nafter {steps:#?}\nin {node:#?}");
            }
            for step in node.moves(bounds) {
                seen.steps += 1;
                let mut after = node.clone();
                if let Err(rule) = after.step(step) {
                    let mut steps = told(trail.as_ref());
                    steps.push(step);
                    panic!("{rule}\nafter {steps:#?}\nfrom {node:#?}\nto {after:#?}");
                }
                if known.insert(after.fingerprint()) {
                    let before = trail.clone();
                    next.push((after, Some(Rc::new(Trail { step, before }))));
                }
            }
        }
        level = next;
    }
    seen
}

/// The world at its best: everything under way comes to a good end.
const FAIR: Bounds = Bounds {
    families: &[],
    asked_max: 0,
};

/// One step that leads on; none when nothing is under way.
fn fair_step(node: &Node) -> Option<Move> {
    let world = &node.world;
    if let Some(end) = node.ends(&FAIR).into_iter().next() {
        return Some(Move::End(end));
    }
    if world.ended {
        return None;
    }
    if world.changed {
        return Some(Move::Look);
    }
    if world.slot == SlotIs::Asked {
        return Some(Move::Slot);
    }
    if world.hooks {
        return Some(Move::Hook(HookVerdict::Go));
    }
    if world.asking {
        return Some(Move::Reconciled(AfterReconcile::Stay));
    }
    if world.engine.is_some() {
        return Some(Move::Ended);
    }
    if world.wake_mono.is_some() {
        return Some(Move::Tick);
    }
    world.wake_ms.map(|_| Move::TickByWall)
}

/// What must hold of whatever comes after a state.
pub(super) fn whole_paths(node: &Node) -> Result<(), Broken> {
    everybody_is_answered(node.clone())?;
    a_due_head_is_claimed(node.clone())
}

/// When the world brings everything under way to its end, nobody waits any more.
fn everybody_is_answered(mut node: Node) -> Result<(), Broken> {
    for _ in 0..100 {
        if node.rests() && node.world.asked.is_empty() {
            return Ok(());
        }
        let Some(step) = fair_step(&node) else {
            return Err("everybody is answered in the end");
        };
        node.step(step)?;
    }
    Err("what is under way comes to its end")
}

/// A due head that nothing holds is claimed, if only slots and time are given.
fn a_due_head_is_claimed(mut node: Node) -> Result<(), Broken> {
    let idle = node.lane.is_idle() && node.world.stop_at.is_none() && !node.world.ended;
    if !idle || !node.world.claimable() {
        return Ok(());
    }
    // A lane may be unloaded on an old look; who finds the row then loads it again.
    if node.world.changed {
        node.step(Move::Look)?;
    }
    // The wall clock is looked at every 30 s, whatever the timer was set to.
    node.step(Move::TickEarly)?;
    for _ in 0..20 {
        let claims = |op: &OpIs| matches!(op, OpIs::Claim { request: None });
        if node.world.ops.iter().any(claims) {
            return Ok(());
        }
        let Some(step) = fair_step(&node) else {
            return Err("liveness: a due head that nothing holds is claimed");
        };
        node.step(step)?;
    }
    Err("liveness: a due head that nothing holds is claimed soon")
}

const QUEUES: [&[RowIs]; 6] = [
    &[],
    &[RowIs::Due],
    &[RowIs::Future],
    &[RowIs::Held],
    &[RowIs::Others],
    &[RowIs::Due, RowIs::Due],
];

const BEGAN: Move = Move::End(End::Began { steerable: true });

/// Ways into the middle of things, on a lane with two rows.
const WAYS_IN: [&[Move]; 12] = [
    &[Move::Look, Move::Slot],
    &[Move::Left, KEPT],
    &[Move::Ask(Ask::OrSteer), Move::Left, INTERRUPT],
    &[Move::Left, Move::Reconciled(AfterReconcile::Leave)],
    &[Move::Look, Move::Slot, Move::End(End::Claimed)],
    &[Move::Look, Move::Slot, BEGAN],
    &[Move::Ask(Ask::OrSteer), BEGAN],
    &[Move::Ask(Ask::OrSteer), BEGAN, STEER],
    &[Move::Ask(Ask::OrSteer), BEGAN, INTERRUPT, KEPT],
    &[Move::Ask(Ask::OrSteer), BEGAN, INTERRUPT, Move::Ended],
    &[Move::Look, Move::Slot, BEGAN, Move::Ended, KEPT],
    &[
        Move::Look,
        Move::Slot,
        BEGAN,
        Move::Ended,
        Move::End(End::Failed),
    ],
];
const STEER: Move = Move::Ask(Ask::Steer(Named::Current));
const INTERRUPT: Move = Move::Ask(Ask::Interrupt(Named::Current));
const KEPT: Move = Move::Ask(Ask::OrSteer);

fn middles() -> Vec<Node> {
    let walk = |way: &[Move]| {
        let mut node = Node::new(&[RowIs::Due, RowIs::Due]);
        for step in way {
            node.step(*step).unwrap();
        }
        node
    };
    WAYS_IN.map(walk).into()
}

/// Explores, and fails if there was less to see than there used to be.
fn explored(first: Vec<Node>, bounds: &Bounds, depth: usize, at_least: &Seen) {
    let seen = explore(first, bounds, depth);
    let families = bounds.families.len();
    #[expect(
        clippy::print_stdout,
        reason = "the figures are what the test is run for"
    )]
    {
        println!("{families} families, depth {depth}: {seen:?}");
    }
    assert!(seen.states >= at_least.states, "{seen:?}");
    assert!(seen.steps >= at_least.steps, "{seen:?}");
}

const EVERYTHING: &[Family] = &[
    Family::Starts,
    Family::Steers,
    Family::Interrupts,
    Family::Queue,
    Family::Holds,
    Family::Clock,
    Family::Listeners,
    Family::Stop,
    Family::Faults,
    Family::Hooks,
    Family::DeadWorkers,
];

#[test]
fn whatever_happens_to_a_lane_that_was_just_loaded_keeps_the_rules() {
    let bounds = Bounds {
        families: EVERYTHING,
        asked_max: 3,
    };
    let at_least = Seen {
        states: 95_000,
        steps: 2_300_000,
    };
    explored(QUEUES.map(Node::new).into(), &bounds, 5, &at_least);
}

#[test]
fn whatever_happens_in_the_middle_of_things_keeps_the_rules() {
    let bounds = Bounds {
        families: EVERYTHING,
        asked_max: 3,
    };
    let at_least = Seen {
        states: 28_000,
        steps: 680_000,
    };
    explored(middles(), &bounds, 4, &at_least);
}

#[test]
fn every_interleaving_of_requests_keeps_the_rules() {
    let bounds = Bounds {
        families: &[
            Family::Starts,
            Family::Steers,
            Family::Interrupts,
            Family::Hooks,
        ],
        asked_max: 2,
    };
    let at_least = Seen {
        states: 48_000,
        steps: 310_000,
    };
    explored(QUEUES.map(Node::new).into(), &bounds, 8, &at_least);
}

#[test]
fn every_interleaving_of_queue_and_clocks_keeps_the_rules() {
    let bounds = Bounds {
        families: &[
            Family::Queue,
            Family::Holds,
            Family::Clock,
            Family::Listeners,
            Family::Faults,
            Family::Hooks,
        ],
        asked_max: 0,
    };
    let at_least = Seen {
        states: 34_000,
        steps: 325_000,
    };
    explored(QUEUES.map(Node::new).into(), &bounds, 8, &at_least);
}

#[test]
fn every_interleaving_of_a_stop_with_requests_keeps_the_rules() {
    let bounds = Bounds {
        families: &[
            Family::Starts,
            Family::Interrupts,
            Family::Stop,
            Family::Faults,
            Family::Hooks,
            Family::Clock,
        ],
        asked_max: 2,
    };
    let at_least = Seen {
        states: 58_000,
        steps: 660_000,
    };
    explored(QUEUES.map(Node::new).into(), &bounds, 7, &at_least);
}

#[test]
fn every_interleaving_around_a_dead_workers_turn_keeps_the_rules() {
    let bounds = Bounds {
        families: &[
            Family::Starts,
            Family::Steers,
            Family::Interrupts,
            Family::Stop,
            Family::Faults,
            Family::Listeners,
            Family::DeadWorkers,
        ],
        asked_max: 2,
    };
    let at_least = Seen {
        states: 75_000,
        steps: 850_000,
    };
    let left = |rows: &[RowIs]| {
        let mut node = Node::new(rows);
        node.step(Move::Left).unwrap();
        node
    };
    explored(QUEUES.map(left).into(), &bounds, 6, &at_least);
}
