//! The progress of a job as one line, and the rate and the time left that it shows.
//!
//! Pure but for the clock of its caller.

use std::collections::VecDeque;
use std::time::Duration;

use turnlane::{JobState, JobStatus};

use crate::shown::time;

/// The ended items that the rate and the time left are computed from.
const WINDOW: usize = 50;

/// The pace at which items have ended lately.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time and the number of ended items of the last look.
    last: Option<(Duration, i64)>,
    /// For each of the last ended items the time since the one before, in seconds.
    gaps: VecDeque<f64>,
}

impl Pace {
    /// Takes in the number of ended items at a time since the start.
    pub(super) fn look(&mut self, at: Duration, ended: i64) {
        let Some((before, known)) = self.last else {
            self.last = Some((at, ended));
            return;
        };
        let Ok(count) = u32::try_from(ended - known) else {
            // A retry made ended items wait again.
            *self = Self::default();
            return;
        };
        if count == 0 {
            return;
        }
        let gap = at.saturating_sub(before).as_secs_f64() / f64::from(count);
        let times = usize::try_from(count).unwrap_or(WINDOW).min(WINDOW);
        self.gaps.extend(std::iter::repeat_n(gap, times));
        while self.gaps.len() > WINDOW {
            self.gaps.pop_front();
        }
        self.last = Some((at, ended));
    }

    /// Ended items per minute.
    fn per_minute(&self) -> Option<f64> {
        let sum: f64 = self.gaps.iter().sum();
        let count = u32::try_from(self.gaps.len()).ok()?;
        (sum > 0.0).then(|| 60.0 * f64::from(count) / sum)
    }

    /// The time that so many items take, by the faster and the slower quarter of the last ones.
    fn left(&self, items: i64) -> Option<(Duration, Duration)> {
        let items = f64::from(u32::try_from(items).ok().filter(|items| *items > 0)?);
        let mut gaps: Vec<f64> = self.gaps.iter().copied().collect();
        if gaps.len() < 2 {
            return None;
        }
        gaps.sort_by(f64::total_cmp);
        let at = |part: usize| gaps[(gaps.len() - 1) * part / 4];
        let seconds = |gap: f64| Duration::try_from_secs_f64(gap * items).ok();
        Some((seconds(at(1))?, seconds(at(3))?))
    }
}

/// The line of a job: `review  412/1000 ok  3 failed  16 running (limit 16)  84/min  ETA 6m-8m  …`.
pub(super) fn line(job: &JobStatus, pace: &Pace, now_ms: i64) -> String {
    let counts = &job.counts;
    let mut parts = vec![
        super::looking::name(job),
        format!("{}/{} ok", counts.succeeded, counts.total),
    ];
    if counts.failed > 0 {
        parts.push(format!("{} failed", counts.failed));
    }
    if counts.skipped > 0 {
        parts.push(format!("{} skipped", counts.skipped));
    }
    if counts.cancelled > 0 {
        parts.push(format!("{} cancelled", counts.cancelled));
    }
    if job.state == JobState::Running || counts.running > 0 {
        let (running, limit) = (counts.running, job.current_limit);
        parts.push(format!("{running} running (limit {limit})"));
    }
    if let Some(rate) = pace.per_minute() {
        parts.push(format!("{rate:.0}/min"));
    }
    if job.state == JobState::Running
        && let Some((soon, late)) = pace.left(counts.pending + counts.running)
    {
        parts.push(format!("ETA {}", range(&short(soon), &short(late))));
    }
    if job.usage.attempts > 0 {
        parts.push(format!("{} tokens", rounded(job.usage.tokens.total_tokens)));
        parts.push(match job.usage.tokens.cost_usd {
            Some(cost) => format!("${cost:.2}"),
            None => "$?".to_owned(),
        });
    }
    parts.extend(trouble(job, now_ms));
    parts.join("  ")
}

/// The reason why a job does not go on.
fn trouble(job: &JobStatus, now_ms: i64) -> Option<String> {
    if job.state == JobState::Paused {
        let reason = job.reason.as_deref().unwrap_or("user");
        return Some(match job.resume_at_ms {
            Some(at) => format!("paused: {reason} until {}", time::utc(at / 1_000)),
            None => format!("paused: {reason}"),
        });
    }
    let hold = job.hold.as_ref()?;
    let kind = match hold.kind.as_str() {
        "rate_limited" => "rate limit",
        kind => kind,
    };
    let left = hold.until_ms.map(|until| (until - now_ms).max(0) / 1_000);
    Some(match left {
        Some(seconds) => format!("held {seconds}s: {kind}"),
        None => format!("held: {kind}"),
    })
}

fn range(soon: &str, late: &str) -> String {
    if soon == late {
        soon.to_owned()
    } else {
        format!("{soon}-{late}")
    }
}

/// A time with one unit.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds.div_ceil(60)),
        _ => format!("{}h", seconds.div_ceil(3_600)),
    }
}

/// A number with at most three digits and its magnitude.
pub(super) fn rounded(count: i64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    for (size, unit) in units {
        if count >= size {
            let (whole, tenths) = (count / size, count % size * 10 / size);
            return if whole >= 100 {
                format!("{whole}{unit}")
            } else {
                format!("{whole}.{tenths}{unit}")
            };
        }
    }
    count.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests write it in place")]
    fn job(members: serde_json::Value) -> JobStatus {
        let mut job = json!({"id": "0193f0c2-7d1e-7a40-9c55-3f2b8e6d1a77", "name": "review",
            "state": "running", "reason": null, "reasonMessage": null, "resumeAtMs": null,
            "owner": "detached", "parentThreadId": null, "parentTurnId": null, "version": 1,
            "resultChannel": "tool", "idColumn": null, "columns": [], "limits": {},
            "currentLimit": 16, "hold": null,
            "import": {"bytes": 0, "rows": 0, "blankRows": 0, "hash": "", "warnings": []},
            "counts": {"total": 1000, "pending": 569, "running": 16, "succeeded": 412,
                "failed": 3, "skipped": 0, "cancelled": 0},
            "usage": {"totalTokens": 1_234_567, "costUsd": 3.1, "attempts": 431},
            "exportPath": null, "exportError": null, "createdAtMs": 0, "startedAtMs": 0,
            "endedAtMs": null});
        for (name, value) in members.as_object().unwrap() {
            job[name] = value.clone();
        }
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_line_tells_counts_rate_time_left_and_use() {
        let mut pace = Pace::default();
        pace.look(Duration::ZERO, 365);
        // Half of the last fifty ended twice as fast as the others.
        pace.look(Duration::from_secs(12), 390);
        pace.look(Duration::from_secs(36), 415);
        assert_eq!(
            line(&job(json!({})), &pace, 0),
            "review  412/1000 ok  3 failed  16 running (limit 16)  83/min  ETA 5m-10m  \
             1.2M tokens  $3.10"
        );
    }

    #[test]
    fn a_line_tells_what_holds_a_job() {
        let held = json!({"hold": {"kind": "rate_limited", "message": null, "untilMs": 12_900},
            "usage": {"totalTokens": 5, "costUsd": null, "attempts": 1}});
        let told = line(&job(held), &Pace::default(), 0);
        assert!(
            told.ends_with("5 tokens  $?  held 12s: rate limit"),
            "{told}"
        );
        let paused = json!({"state": "paused", "reason": "quota", "resumeAtMs": 75_900_000,
            "counts": {"total": 2, "pending": 2, "running": 0, "succeeded": 0, "failed": 0,
                "skipped": 0, "cancelled": 0}});
        let told = line(&job(paused), &Pace::default(), 0);
        assert!(
            told.ends_with("paused: quota until 1970-01-01 21:05 UTC"),
            "{told}"
        );
    }

    #[test]
    fn a_retry_begins_a_new_pace() {
        let mut pace = Pace::default();
        pace.look(Duration::ZERO, 0);
        pace.look(Duration::from_secs(10), 10);
        assert!(pace.per_minute().is_some());
        pace.look(Duration::from_secs(11), 4);
        assert_eq!(pace.per_minute(), None);
    }

    #[test]
    fn large_numbers_are_rounded() {
        assert_eq!(rounded(999), "999");
        assert_eq!(rounded(1_200_000), "1.2M");
        assert_eq!(rounded(123_456), "123k");
    }
}
