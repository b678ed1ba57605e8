//! The load of the kill test: what was asked, what was acknowledged, what has to be repeated.
//!
//! The invariant here: an add that was not answered is repeated, with its key, before anything else
//! is added to its lane, until it is answered; so the order of the first sends is the order of the
//! rows. Only rows that were answered for are deleted, since a deletion frees the key.

use std::collections::{BTreeMap, HashMap};

use turnlane_protocol::ids::ThreadId;
use turnlane_store::RowId;
use turnlane_store::Store;
use turnlane_testkit::Random;

use super::super::serving::{Answer, Place};
use crate::support;

/// A queued turn that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) lane: usize,
    pub(super) policy: &'static str,
    text: &'static str,
    /// The row, once an add was answered.
    pub(super) row: Option<RowId>,
    /// How often a retry was asked for.
    pub(super) retries: usize,
    /// Whether its deletion was asked for.
    pub(super) deleted: bool,
}

/// A command on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) line: String,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Add(String),
    Start { lane: usize, client: String },
    Other,
}

/// What was asked and acknowledged.
pub(super) struct Load {
    pub(super) threads: Vec<ThreadId>,
    /// Queued turns by client id.
    pub(super) wanted: BTreeMap<String, Wanted>,
    /// The client ids of each lane in the order they were first sent.
    pub(super) order: Vec<Vec<String>>,
    /// Direct turns that were acknowledged: lane, client id, turn.
    pub(super) started: Vec<(usize, String, String)>,
    /// How many repeated adds found their row.
    pub(super) repeated: usize,
    under_way: HashMap<u64, What>,
    next: usize,
}

impl Load {
    pub(super) fn new(threads: Vec<ThreadId>) -> Self {
        Self {
            order: vec![Vec::new(); threads.len()],
            threads,
            wanted: BTreeMap::new(),
            started: Vec::new(),
            repeated: 0,
            under_way: HashMap::new(),
            next: 0,
        }
    }

    /// A command was sent under this number.
    pub(super) fn sent(&mut self, number: u64, sent: Sent) {
        self.under_way.insert(number, sent.what);
    }

    /// The child has died: nothing more is answered.
    pub(super) fn forget_unanswered(&mut self) {
        self.under_way.clear();
    }

    /// Whether every add was answered.
    pub(super) fn is_answered(&self) -> bool {
        self.wanted.values().all(|wanted| wanted.row.is_some())
    }

    pub(super) fn answered(&mut self, number: u64, answer: Answer) {
        match (self.under_way.remove(&number), answer) {
            (Some(What::Add(client)), Ok(words)) => {
                let (how, row) = words.split_once(' ').unwrap();
                self.repeated += usize::from(how == "repeated");
                let row = row.parse::<uuid::Uuid>().unwrap().into();
                let known = &mut self.wanted.get_mut(&client).unwrap().row;
                assert!(
                    known.is_none_or(|known| known == row),
                    "{client} has two rows"
                );
                *known = Some(row);
            }
            (Some(What::Add(client)), Err(why)) => panic!("{client} was refused: {why}"),
            (Some(What::Start { lane, client }), Ok(turn)) => {
                self.started.push((lane, client, turn));
            }
            // Refusals of all others are as good as answers: the lane was busy, the row was gone.
            (Some(What::Start { .. } | What::Other), _) => {}
            (None, answer) => panic!("answer {number} to nothing: {answer:?}"),
        }
    }

    /// The adds that were not answered yet, in their order.
    pub(super) fn repeats(&self) -> Vec<Option<Sent>> {
        let clients = self.order.iter().flatten();
        let open = clients.filter(|client| self.wanted[*client].row.is_none());
        open.map(|client| Some(self.add(client))).collect()
    }

    fn add(&self, client: &str) -> Sent {
        let Wanted {
            lane, policy, text, ..
        } = &self.wanted[client];
        Sent {
            line: format!("add {} {client} {policy} {text}", self.threads[*lane]),
            what: What::Add(client.to_owned()),
        }
    }

    fn other(&self, lane: usize, word: &str, rest: &str) -> Sent {
        Sent {
            line: format!("{word} {} {rest}", self.threads[lane]),
            what: What::Other,
        }
    }

    pub(super) fn resume(&self, lane: usize) -> Sent {
        self.other(lane, "resume", "")
    }

    /// The next thing that somebody wants; nothing when there is nothing to do it to.
    pub(super) async fn next(&mut self, random: &mut Random, place: &Place) -> Option<Sent> {
        let lane = random.below(self.threads.len());
        self.next += 1;
        Some(match random.below(100) {
            0..60 => {
                let client = format!("q{}", self.next);
                let wanted = Wanted {
                    lane,
                    policy: random.of(&["block", "block", "continue", "retry"]),
                    text: text(random),
                    row: None,
                    retries: 0,
                    deleted: false,
                };
                self.wanted.insert(client.clone(), wanted);
                self.order[lane].push(client.clone());
                self.add(&client)
            }
            60..68 => {
                let client = format!("d{}", self.next);
                let text = text(random);
                Sent {
                    line: format!("start {} {client} {text}", self.threads[lane]),
                    what: What::Start { lane, client },
                }
            }
            68..76 => self.other(lane, "interrupt", "continue"),
            76..78 => self.other(lane, "interrupt", "pause"),
            78..82 => self.other(lane, "pause", ""),
            82..92 => self.resume(lane),
            _ => return self.delete(random, lane, place).await,
        })
    }

    /// Deletes some row that waits and was answered for.
    async fn delete(&mut self, random: &mut Random, lane: usize, place: &Place) -> Option<Sent> {
        let query = support::queue_query(self.threads[lane]);
        let page = place.store.queue(query).await.unwrap();
        let answered = |row: &&turnlane_store::queue::Row| {
            let wanted = self.wanted.get(&row.client_id);
            wanted.is_some_and(|wanted| wanted.row.is_some())
        };
        let rows: Vec<_> = page.rows.iter().filter(answered).collect();
        let row = *rows.get(random.below(rows.len()))?;
        self.wanted.get_mut(&row.client_id)?.deleted = true;
        Some(self.other(lane, "delete", &row.id.to_string()))
    }

    /// What a person does about a failed head: mostly a retry.
    pub(super) fn heal(&mut self, random: &mut Random, lane: usize, row: RowId) -> Option<Sent> {
        let mut rows = self.wanted.values_mut();
        let wanted = rows.find(|wanted| wanted.lane == lane && wanted.row == Some(row))?;
        let word = random.of(&["retry", "retry", "delete"]);
        if word == "retry" {
            wanted.retries += 1;
        } else {
            wanted.deleted = true;
        }
        Some(self.other(lane, word, &row.to_string()))
    }
}

fn text(random: &mut Random) -> &'static str {
    match random.below(100) {
        0..55 => "quick",
        55..75 => "exec",
        75..87 => "slow",
        87..94 => "long",
        94..97 => "fail",
        _ => "limit",
    }
}
