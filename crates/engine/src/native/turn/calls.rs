//! The calls of one response: which run beside each other, and the order of their answers.
//!
//! The invariants here: every call has exactly one answer, answers are recorded in the order of the
//! calls, each as soon as all before it are there, and pictures stand behind all of them. A call that
//! must run alone runs when everything before it has ended, and nothing behind it starts earlier.
//!
//! What a call does is in the neighbour `call`.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::call::{Caller, Ended};
use super::rounds::Next;
use super::{Halt, Turn};
use crate::cancel::CancelReason;
use crate::native::history::{Answer, Image};
use crate::native::stream::Call;
use crate::native::tools::Slots;
use crate::said::Fenced;

/// How many calls of one response are made.
pub(super) const CALLS_MAX: usize = 64;

/// What has come of the calls so far.
struct Gathered {
    call_ids: Vec<String>,
    answers: Vec<Option<String>>,
    /// How many answers are recorded.
    recorded: usize,
    pictures: Vec<Vec<Image>>,
    notes: Vec<Vec<String>>,
    next: Next,
    halt: Option<Halt>,
}

impl Gathered {
    fn of(calls: &[Call]) -> Self {
        let count = calls.len();
        Self {
            call_ids: calls.iter().map(|call| call.call_id.clone()).collect(),
            answers: vec![None; count],
            recorded: 0,
            pictures: vec![vec![]; count],
            notes: vec![vec![]; count],
            next: Next::Round,
            halt: None,
        }
    }

    fn take(&mut self, nth: usize, ended: Ended) {
        self.answers[nth] = Some(ended.output.text);
        self.pictures[nth] = ended.output.pictures;
        self.notes[nth] = ended.context;
        if ended.output.end_turn {
            self.next = Next::EndByTool;
        }
        if let Some(halt) = ended.halt {
            self.halt(halt);
        }
    }

    /// Keeps the weightiest reason: a lost lane, then one with words, then the first.
    fn halt(&mut self, new: Halt) {
        let replaces = match (&self.halt, &new) {
            (None, _) | (Some(_), Halt::Fenced) => true,
            (Some(Halt::Interrupted(None)), Halt::Interrupted(words)) => words.is_some(),
            (Some(_), _) => false,
        };
        if replaces {
            self.halt = Some(new);
        }
    }

    /// The answers that may be recorded now.
    fn ready(&mut self) -> Vec<Answer> {
        let mut ready = Vec::new();
        while let Some(text) = self.answers.get_mut(self.recorded).and_then(Option::take) {
            let call_id = self.call_ids[self.recorded].clone();
            ready.push(Answer { call_id, text });
            self.recorded += 1;
        }
        ready
    }
}

impl Turn {
    /// Runs the calls of a response and records what they brought.
    pub(super) async fn run_calls(&mut self, calls: Vec<Call>) -> Result<Next, Halt> {
        let began = Instant::now();
        let mut gathered = Gathered::of(&calls);
        self.run_all(calls, &mut gathered).await?;
        for text in &mut gathered.answers[gathered.recorded..] {
            text.get_or_insert_with(|| self.tools.cancel.cut_off(began.elapsed()));
        }
        self.record_ready(&mut gathered).await?;
        let pictures = gathered.pictures.concat();
        let pictures = self.author.pictures(&pictures);
        self.record(pictures.into_iter().collect()).await?;
        self.note_all(&gathered.notes.concat()).await?;
        match gathered.halt {
            Some(halt) => Err(halt),
            None => Ok(gathered.next),
        }
    }

    async fn run_all(&mut self, calls: Vec<Call>, gathered: &mut Gathered) -> Result<(), Halt> {
        let slots = Slots::new(self.setup.config.tools.parallel_max);
        let mut waiting = calls.into_iter().enumerate().peekable();
        // Dropped with the turn, and everything in it with it.
        let mut running = JoinSet::new();
        let mut runs_alone = false;
        loop {
            while gathered.halt.is_none() && !runs_alone {
                let may_start = |(_, call): &(usize, Call)| {
                    let alone = Caller::runs_alone(call);
                    !alone || running.is_empty()
                };
                let Some((nth, call)) = waiting.next_if(may_start) else {
                    break;
                };
                runs_alone = Caller::runs_alone(&call);
                let caller = self.caller(nth, slots.clone());
                running.spawn(async move { (nth, caller.run(call).await) });
            }
            if running.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                cancelled = self.cancel.cancelled(), if gathered.halt.is_none() => {
                    self.stop_tools.cancel(cancelled.reason);
                    gathered.halt(cancelled.into());
                }
                Some(ended) = running.join_next() => {
                    let (nth, ended) = unwound(ended);
                    runs_alone = false;
                    gathered.take(nth, ended);
                    if gathered.halt.is_some() {
                        // The others end too, and say to the model that they did.
                        self.stop_tools.cancel(CancelReason::Interrupt);
                    }
                    self.record_ready(gathered).await?;
                }
            }
        }
    }

    fn caller(&self, nth: usize, slots: Slots) -> Caller {
        Caller {
            nth,
            slots,
            turn: Arc::clone(&self.tools),
            setup: Arc::clone(&self.setup),
        }
    }

    async fn record_ready(&mut self, gathered: &mut Gathered) -> Result<(), Fenced> {
        let entry = self.author.answers(&gathered.ready());
        self.record(entry.into_iter().collect()).await
    }
}

/// A panic of a tool goes on where it would have without a task of its own.
fn unwound<T>(ended: Result<T, tokio::task::JoinError>) -> T {
    match ended {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
