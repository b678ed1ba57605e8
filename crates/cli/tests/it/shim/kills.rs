//! `kill -9` of the shim with many messages queued: each has one end, in order, and the model was asked
//! for none of them twice.
//!
//! `TURNLANE_TEST_FULL` gives the contract's number of kills, `TURNLANE_TEST_SEED` other moments.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use turnlane_testkit::mock_model::{At, MockModel, Reply};
use turnlane_testkit::{Provider, Random};

use super::rig::{Member, Rig, id_of};
use crate::exec::kills::{is_full, seed};

/// Messages that are queued at once.
const QUEUED: usize = 50;
/// Kills while they are worked on.
const KILLS_OF_A_QUEUE: usize = 4;
/// How long the model takes: long enough to be hit.
const ANSWER_AFTER: Duration = Duration::from_millis(5);
/// How long behind an event a kill comes at most.
const BEHIND_MAX: Duration = Duration::from_millis(20);

/// What was told of the messages.
#[derive(Default)]
struct Told {
    /// The accepted ones.
    accepted: BTreeMap<String, bool>,
    /// The terminal receipt of each: its turn and whether it completed.
    ends: BTreeMap<String, (String, bool)>,
    /// The messages in the order of their ends.
    order: Vec<String>,
    /// Receipts that a kill left unrecorded, so that the next shim told them again.
    again: usize,
}

impl Told {
    fn note(&mut self, event: &Value) {
        let Some(id) = id_of(event).map(str::to_owned) else {
            return;
        };
        let name = event["event"].as_str().unwrap();
        match name {
            "Warning" | "MessageDelivered" => {
                self.accepted.insert(id, true);
            }
            "Completion" | "DeliveryFailed" => {
                let turn = event["turn_id"].as_str().unwrap_or_default().to_owned();
                assert!(!turn.is_empty(), "refused: {event}");
                let end = (turn, name == "Completion");
                if let Some(known) = self.ends.get(&id) {
                    // The same end, told by a shim that could not know that it was read.
                    assert_eq!(*known, end, "two ends: {event}");
                    let is_announced = event["recovered"] == true
                        || event["duplicate"] == true
                        || event["code"] == "outcome_unknown";
                    assert!(is_announced, "told twice: {event}");
                    self.again += 1;
                    return;
                }
                self.ends.insert(id.clone(), end);
                self.order.push(id);
            }
            _ => {}
        }
    }

    /// Reads events until so many messages have ended.
    async fn read(&mut self, member: &mut Member, ends: usize) {
        while self.ends.len() < ends {
            let event = member.next().await.unwrap();
            self.note(&event);
        }
    }

    async fn read_for(&mut self, member: &mut Member, time: Duration) {
        let reading = async {
            while let Some(event) = member.next().await {
                self.note(&event);
            }
        };
        let _ = tokio::time::timeout(time, reading).await;
    }
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "figures, and the seed of a failed run")]
async fn kills_with_many_queued_messages_leave_each_one_end_in_order() {
    let queues = if is_full() { 200 / KILLS_OF_A_QUEUE } else { 2 };
    let mut random = Random::new(seed());
    let rig = Rig::new();
    let model = MockModel::start().await.unwrap();
    let provider = Provider {
        request_max_retries: Some(0),
        stream_max_retries: Some(0),
        ..Provider::default()
    };
    rig.home.use_provider(&model.base_url(), &provider).unwrap();
    model.choose_with(|_| Some(Reply::text("done").pause(At::Request, ANSWER_AFTER)));
    let start = || rig.member_of(&["--agent-type", "native", "--reply-command", ""]);
    let mut told = Told::default();
    let mut member = start();
    told.note(&member.event("Ready").await);
    let mut sent = Vec::new();
    for queue in 0..queues {
        let before = sent.len();
        for number in 0..QUEUED {
            let id = format!("m{:05}", queue * QUEUED + number);
            member.message(&id, &id).await;
            sent.push(id);
        }
        // All of them are accepted before the first kill, so none needs to be sent again.
        while sent.iter().any(|id| !told.accepted.contains_key(id)) {
            told.note(&member.next().await.unwrap());
        }
        for _ in 0..KILLS_OF_A_QUEUE {
            let ended = told.ends.len();
            let more = random.below((before + QUEUED - ended).max(1) / 2 + 1);
            told.read(&mut member, ended + more).await;
            let behind = random.shorter(BEHIND_MAX);
            told.read_for(&mut member, behind).await;
            member.process.kill9().await.unwrap();
            for event in member.rest().await {
                told.note(&event);
            }
            member = start();
            for event in member.until("Ready").await {
                told.note(&event);
            }
        }
        told.read(&mut member, before + QUEUED).await;
    }
    member.shutdown().await;
    assert_eq!(told.order, sent, "the order of the ends");
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    for request in model.requests() {
        *asked.entry(request.last_user_text()).or_default() += 1;
    }
    for (id, (_, is_completed)) in &told.ends {
        let runs = asked.get(id).copied().unwrap_or_default();
        assert!(runs <= 1, "{id} was given to the model {runs} times");
        assert!(runs == 1 || !is_completed, "{id} completed without a model");
    }
    let unknown = told
        .ends
        .values()
        .filter(|(_, completed)| !completed)
        .count();
    eprintln!(
        "{} messages, {} kills, {unknown} reported unknown, {} receipts told again",
        sent.len(),
        queues * KILLS_OF_A_QUEUE,
        told.again
    );
}
