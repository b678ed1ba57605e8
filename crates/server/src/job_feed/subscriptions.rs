//! The jobs that one connection is told of.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The jobs that one connection may name; then the subscription made first ends.
const JOBS_MAX: usize = 1_024;

/// The notifications that a connection wants about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// Those about the job.
    Job,
    /// Those about its items too.
    Items,
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub(crate) struct JobSubscriptions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    all: Option<Interest>,
    jobs: HashMap<String, Interest>,
    /// The named jobs, the oldest subscription first.
    order: VecDeque<String>,
    /// Changes of items that were dropped and not told yet.
    dropped: HashMap<String, u64>,
}

impl JobSubscriptions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, or all of them. A subscription is widened and never narrowed by a second one.
    pub(crate) fn add(&self, job: Option<&str>, interest: Interest) {
        let mut state = self.state();
        let Some(job) = job else {
            state.all = state.all.max(Some(interest));
            return;
        };
        if let Some(known) = state.jobs.get_mut(job) {
            *known = (*known).max(interest);
            return;
        }
        if state.jobs.len() == JOBS_MAX
            && let Some(oldest) = state.order.pop_front()
        {
            state.jobs.remove(&oldest);
            state.dropped.remove(&oldest);
        }
        state.jobs.insert(job.to_owned(), interest);
        state.order.push_back(job.to_owned());
    }

    /// Removes one job, or everything.
    pub(crate) fn remove(&self, job: Option<&str>) {
        let mut state = self.state();
        let Some(job) = job else {
            *state = State::default();
            return;
        };
        state.jobs.remove(job);
        state.dropped.remove(job);
        state.order.retain(|named| named != job);
    }

    /// The notifications that are wanted about a job.
    pub(crate) fn interest(&self, job: &str) -> Option<Interest> {
        let state = self.state();
        state.all.max(state.jobs.get(job).copied())
    }

    /// Returns true if the items of any job are wanted.
    pub(crate) fn wants_items(&self) -> bool {
        let state = self.state();
        let mut interests = state.jobs.values().copied().chain(state.all);
        interests.any(|interest| interest == Interest::Items)
    }

    /// Adds the named jobs to a set.
    pub(crate) fn names(&self, names: &mut HashSet<String>) {
        names.extend(self.state().order.iter().cloned());
    }

    /// Counts changes of items that were not sent.
    pub(crate) fn dropped(&self, job: &str, count: u64) {
        let mut state = self.state();
        *state.dropped.entry(job.to_owned()).or_default() += count;
    }

    /// Counts changes of items of which the job is not known, for every job whose items are wanted.
    pub(crate) fn dropped_everywhere(&self, count: u64) {
        let mut state = self.state();
        let State { jobs, dropped, .. } = &mut *state;
        for (job, interest) in jobs {
            if *interest == Interest::Items {
                *dropped.entry(job.clone()).or_default() += count;
            }
        }
    }

    /// The counts that were not told yet.
    pub(crate) fn take_dropped(&self) -> HashMap<String, u64> {
        std::mem::take(&mut self.state().dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_is_widened_and_the_first_one_ends_when_there_are_too_many() {
        let jobs = JobSubscriptions::default();
        assert_eq!(jobs.interest("a"), None);
        jobs.add(Some("a"), Interest::Items);
        jobs.add(Some("a"), Interest::Job);
        assert_eq!(jobs.interest("a"), Some(Interest::Items));
        assert!(jobs.wants_items());
        for number in 0..JOBS_MAX {
            jobs.add(Some(&number.to_string()), Interest::Job);
        }
        assert_eq!(jobs.interest("a"), None);
        assert_eq!(jobs.interest("0"), Some(Interest::Job));
        jobs.add(None, Interest::Job);
        assert_eq!(jobs.interest("a"), Some(Interest::Job));
        jobs.remove(None);
        assert_eq!(jobs.interest("0"), None);
    }

    #[test]
    fn dropped_changes_are_counted_until_they_are_told() {
        let jobs = JobSubscriptions::default();
        jobs.add(Some("a"), Interest::Items);
        jobs.add(Some("b"), Interest::Job);
        jobs.dropped("a", 2);
        jobs.dropped_everywhere(5);
        assert_eq!(jobs.take_dropped(), HashMap::from([("a".to_owned(), 7)]));
        assert_eq!(jobs.take_dropped(), HashMap::new());
    }
}
