//! Plays a script on a store whose disk fails, or plays again only what was acknowledged of it.
//!
//! The invariant here: a database after a run with faults holds exactly what a database without
//! faults holds after the acknowledged operations alone, in all columns of all tables. So nothing
//! has to be known here about what an operation does.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::types::Value;

use super::*;

/// Tables that operations change; who the workers are differs from run to run.
const TABLES: [&str; 13] = [
    "thread",
    "lane",
    "queued_turn",
    "turn",
    "item",
    "entry",
    "approval",
    "fanout_job",
    "fanout_row",
    "fanout_item",
    "fanout_attempt",
    "fanout_result",
    "fanout_count",
];

/// All that is in the tables, one row a line.
pub(super) fn dump(connection: &Connection) -> rusqlite::Result<String> {
    let mut text = String::new();
    for table in TABLES {
        let mut rows = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2, 3"))?;
        let columns = rows.column_count();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let values: Result<Vec<Value>, _> = (0..columns).map(|at| row.get(at)).collect();
            // A String takes everything.
            let _ = writeln!(text, "{table} {:?}", values?);
        }
    }
    Ok(text)
}

/// What readers see.
pub(super) async fn seen(store: &SqliteStore) -> String {
    let read = store.read("dump", |db| dump(db.connection).map_err(noting));
    read.await.unwrap()
}

/// The same, short.
pub(super) fn state(dump: &str) -> String {
    let mut hasher = DefaultHasher::new();
    dump.hash(&mut hasher);
    format!("STATE {:016x}", hasher.finish())
}

/// An operation that can be submitted again and again.
pub(super) type Submit<'s> = Box<dyn Fn(&SqliteStore) -> Work<()> + Send + 's>;

enum Part<'p> {
    /// Nothing fails.
    Sure,
    /// Writes down the answers.
    First(&'p Said),
    /// Carries out what was acknowledged.
    Again(VecDeque<&'p str>),
}

/// How one submission ended.
enum Answer<T> {
    Done(T),
    /// There was no room for new work.
    Full,
    /// The disk failed.
    Failed,
    /// It did not fit what is stored, since something before was refused.
    Declined,
    /// The first play ended here.
    Over,
}

/// Whether a line of the first play stands for an operation that was carried out.
fn was_carried_out(line: &str) -> bool {
    line.starts_with("ACK ") || line.starts_with("DECLINED ")
}

/// Whoever plays the script.
pub(in crate::sqlite::tests) struct Player<'p> {
    store: &'p SqliteStore,
    part: Part<'p>,
}

impl<'p> Player<'p> {
    pub(super) fn first(store: &'p SqliteStore, said: &'p Said) -> Self {
        let part = Part::First(said);
        Self { store, part }
    }

    /// Plays where nothing fails.
    pub(in crate::sqlite::tests) fn sure(store: &'p SqliteStore) -> Self {
        let part = Part::Sure;
        Self { store, part }
    }

    /// Plays what these lines acknowledge.
    pub(super) fn again(store: &'p SqliteStore, lines: impl Iterator<Item = &'p str>) -> Self {
        let answers = lines.filter(|line| {
            let word = line.split(' ').next().unwrap_or_default();
            ["ACK", "FULL", "FAILED", "DECLINED", "STATE"].contains(&word)
        });
        let part = Part::Again(answers.collect());
        Self { store, part }
    }

    /// One operation. What the disk failed is submitted again, as it is, and then succeeds. A name
    /// that begins with `new` stands for new work, which alone may be refused on a full disk.
    pub(super) async fn step<T>(
        &mut self,
        name: &str,
        submit: impl Fn(&SqliteStore) -> Work<T>,
    ) -> Option<T> {
        for _ in 0..2 {
            let wanted = match &self.part {
                Part::Sure | Part::First(_) => true,
                Part::Again(lines) => lines.front().is_some_and(|line| was_carried_out(line)),
            };
            let work = wanted.then(|| submit(self.store));
            let answer = self.answer(name, work).await;
            if matches!(answer, Answer::Full | Answer::Failed) {
                self.compare().await;
            }
            match answer {
                Answer::Done(value) => return Some(value),
                Answer::Full | Answer::Declined | Answer::Over => return None,
                Answer::Failed => {}
            }
        }
        panic!("{name} failed twice, but only one call fails");
    }

    /// Operations that go into one transaction.
    pub(super) async fn together(&mut self, steps: Vec<(&str, Submit<'_>)>) {
        let gate = match self.part {
            Part::First(_) => Some(Gate::hold(self.store).await),
            Part::Sure | Part::Again(_) => None,
        };
        // Looked at in advance: all are submitted before the first is answered.
        let mut ahead = match &self.part {
            Part::Sure | Part::First(_) => VecDeque::new(),
            Part::Again(lines) => lines.clone(),
        };
        let mut works = Vec::new();
        for (_, submit) in &steps {
            let line = ahead.pop_front();
            let wanted = match &self.part {
                Part::Sure | Part::First(_) => true,
                Part::Again(_) => line.is_some_and(was_carried_out),
            };
            works.push(wanted.then(|| submit(self.store)));
        }
        if let Some(gate) = gate {
            gate.open().await;
        }
        let mut failed = Vec::new();
        let mut refused = false;
        for ((name, submit), work) in steps.into_iter().zip(works) {
            let answer = self.answer(name, work).await;
            refused |= matches!(answer, Answer::Full | Answer::Failed);
            if matches!(answer, Answer::Failed) {
                failed.push((name, submit));
            }
        }
        if refused {
            self.compare().await;
        }
        for (name, submit) in failed {
            self.step(name, submit).await;
        }
    }

    async fn answer<T>(&mut self, name: &str, work: Option<Work<T>>) -> Answer<T> {
        let end = match work {
            Some(work) => Some(work.await),
            None => None,
        };
        match &mut self.part {
            Part::Sure => Answer::Done(end.unwrap().unwrap()),
            Part::First(said) => {
                let (word, answer) = match end.unwrap() {
                    Ok(value) => ("ACK", Answer::Done(value)),
                    Err(StoreError::DiskFull { .. }) => ("FULL", Answer::Full),
                    Err(StoreError::Failed { .. }) => ("FAILED", Answer::Failed),
                    Err(StoreError::WritesOff | StoreError::Closed) => panic!("{name} is off"),
                    Err(error) => {
                        said.say(&format!("BECAUSE {error:?}"));
                        ("DECLINED", Answer::Declined)
                    }
                };
                said.say(&format!("{word} {name}"));
                answer
            }
            Part::Again(lines) => {
                let Some(line) = lines.pop_front() else {
                    return Answer::Over;
                };
                let (word, named) = line.split_once(' ').unwrap();
                assert_eq!(named, name, "the script goes another way");
                match (word, end) {
                    ("ACK", Some(end)) => Answer::Done(end.unwrap()),
                    ("DECLINED", Some(Err(_))) => Answer::Declined,
                    ("FULL", None) => Answer::Full,
                    ("FAILED", None) => Answer::Failed,
                    _ => panic!("{line} is answered otherwise"),
                }
            }
        }
    }

    /// What was refused cannot be seen: readers see the state of what was acknowledged.
    async fn compare(&mut self) {
        let seen = seen(self.store).await;
        match &mut self.part {
            Part::Sure => {}
            Part::First(said) => {
                said.say(&state(&seen));
                said.refused();
            }
            Part::Again(lines) => {
                let line = lines.pop_front().unwrap();
                assert_eq!(line, state(&seen), "something refused could be seen");
            }
        }
    }
}
