//! What was asked of one lane and answered, and the comparison with what is there afterwards.
//!
//! The invariant here: only what a server answered is held against it, and every message has a text of
//! its own, so that a history, a queue and a model's record can be compared without any id. Nothing
//! here talks to a server: [`Ledger::compare`] is pure, and its tests show each kind of fault.

use std::collections::{BTreeMap, BTreeSet};

/// By which call a message was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `thread/queue/add`.
    Row,
    /// `turn/start` on an idle lane.
    Direct,
}

impl Way {
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Row => "thread/queue/add",
            Self::Direct => "turn/start",
        }
    }
}

#[derive(Clone, Debug)]
struct Message {
    text: String,
    way: Way,
    answered: bool,
    /// How often the script asked for it again.
    retries: usize,
}

/// The messages of one lane, in the order in which they were sent over one connection.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    messages: Vec<Message>,
}

/// One turn of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The texts of its user messages.
    pub texts: Vec<String>,
    /// Its status on the wire.
    pub status: String,
}

/// What a lane that should be at rest shows.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its history, oldest first.
    pub turns: Vec<Turn>,
    /// The texts that are still queued, in order.
    pub queued: Vec<String>,
    /// Why it is not at rest, if it is not.
    pub restless: Option<String>,
}

/// How often a model was asked each text, not counting the rounds of a tool.
pub type Asked = BTreeMap<String, usize>;

/// What is wrong, each by the text that shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Acknowledged rows that are neither in the history nor in the queue.
    pub lost: BTreeSet<String>,
    /// Messages that ran, or were shown to the model, more often than they were asked for.
    pub doubled: BTreeSet<String>,
    /// Lanes that do not come to rest, or turns that never end.
    pub stuck: BTreeSet<String>,
    /// Messages that stand behind one that was sent after them.
    pub disordered: BTreeSet<String>,
    /// Turns whose start was answered and that are not in the history.
    pub absent: BTreeSet<String>,
    /// Acknowledged pauses that did not hold.
    pub unpaused: BTreeSet<String>,
    /// Processes of turns that outlived them.
    pub outliving: BTreeSet<String>,
}

impl Faults {
    /// Each kind by its name, in the order of the report.
    pub fn kinds(&self) -> [(&'static str, &BTreeSet<String>); 7] {
        [
            ("acknowledged rows lost", &self.lost),
            ("turns doubled", &self.doubled),
            ("lanes stuck", &self.stuck),
            ("turns out of order", &self.disordered),
            ("turns answered but absent", &self.absent),
            ("pauses forgotten", &self.unpaused),
            ("processes left over", &self.outliving),
        ]
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.kinds().iter().all(|(_, faults)| faults.is_empty())
    }

    /// Adds those of another comparison; one that was known already is not counted again.
    pub fn extend(&mut self, others: Self) {
        self.lost.extend(others.lost);
        self.doubled.extend(others.doubled);
        self.stuck.extend(others.stuck);
        self.disordered.extend(others.disordered);
        self.absent.extend(others.absent);
        self.unpaused.extend(others.unpaused);
        self.outliving.extend(others.outliving);
    }
}

impl Ledger {
    /// Notes a message that is about to be sent.
    pub fn sent(&mut self, text: &str, way: Way) {
        self.messages.push(Message {
            text: text.to_owned(),
            way,
            answered: false,
            retries: 0,
        });
    }

    /// Notes that a message was accepted.
    pub fn answered(&mut self, text: &str) {
        self.change(text, |message| message.answered = true);
    }

    /// Notes that a message was refused, which is an answer too: it must not be there.
    pub fn refused(&mut self, text: &str) {
        self.messages.retain(|message| message.text != text);
    }

    /// Notes that a message was asked for once more.
    pub fn retried(&mut self, text: &str) {
        self.change(text, |message| message.retries += 1);
    }

    /// How many messages of this way were accepted.
    pub fn count(&self, way: Way) -> usize {
        let counts = |message: &&Message| message.answered && message.way == way;
        self.messages.iter().filter(counts).count()
    }

    /// How many messages are there although nobody was told that they would be.
    pub fn unanswered_but_there(&self, seen: &Seen) -> usize {
        let there: BTreeSet<&str> = seen.texts().collect();
        let counts =
            |message: &&Message| !message.answered && there.contains(message.text.as_str());
        self.messages.iter().filter(counts).count()
    }

    /// What is wrong with what is seen, and with what the model was asked.
    pub fn compare(&self, seen: &Seen, asked: &Asked) -> Faults {
        let mut faults = Faults::default();
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for text in seen.texts() {
            *found.entry(text).or_default() += 1;
        }
        for message in &self.messages {
            let text = message.text.as_str();
            let times = found.get(text).copied().unwrap_or_default();
            let asked = asked.get(text).copied().unwrap_or_default();
            if message.answered && times == 0 {
                let missing = match message.way {
                    Way::Row => &mut faults.lost,
                    Way::Direct => &mut faults.absent,
                };
                missing.insert(text.to_owned());
            }
            if times.max(asked) > 1 + message.retries {
                faults.doubled.insert(text.to_owned());
            }
        }
        faults.disordered = self.disordered(seen);
        faults.stuck.extend(seen.restless.clone());
        let endless = seen.turns.iter().filter(|turn| turn.status == "inProgress");
        faults
            .stuck
            .extend(endless.map(|turn| format!("a turn never ends: {:?}", turn.texts)));
        faults
    }

    /// Messages whose first place is behind that of one that was sent later.
    fn disordered(&self, seen: &Seen) -> BTreeSet<String> {
        let order: BTreeMap<&str, usize> = self
            .messages
            .iter()
            .enumerate()
            .map(|(at, message)| (message.text.as_str(), at))
            .collect();
        let mut met = BTreeSet::new();
        let mut latest = 0;
        let mut disordered = BTreeSet::new();
        for text in seen.texts() {
            let Some(&at) = order.get(text) else {
                continue;
            };
            // Only the first time counts: what is asked for again comes again, later.
            if !met.insert(text) {
                continue;
            }
            if at < latest {
                disordered.insert(text.to_owned());
            }
            latest = latest.max(at);
        }
        disordered
    }

    fn change(&mut self, text: &str, change: impl FnOnce(&mut Message)) {
        if let Some(message) = self.messages.iter_mut().find(|known| known.text == text) {
            change(message);
        }
    }
}

impl Seen {
    /// All texts, those of the history first.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let ran = self.turns.iter().flat_map(|turn| &turn.texts);
        ran.chain(&self.queued).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
