//! The reset time in `try again at [Mon Dth, YYYY ]h:mm AM|PM`.
//!
//! Codex writes the time in the zone of its own process, without naming the zone and, on the same
//! day, without the date. The invariant: a text that does not have exactly this form gives no time.

use std::ffi::OsStr;
use std::path::Path;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

/// The text has the precision of minutes, so the allowance is back at most this much later.
const PRECISION_SECONDS: i64 = 60;
/// A time without a date lies between this long before now and [`AHEAD_SECONDS`] after it.
const BEHIND_SECONDS: i64 = 60;
const AHEAD_SECONDS: i64 = 24 * 3600;

const SYSTEM_ZONE_FILE: &str = "/etc/localtime";

/// The time zone of a child.
#[derive(Clone, Debug)]
pub(in crate::codex_exec) struct ChildZone(TimeZone);

impl ChildZone {
    /// The zone of a process whose variable `TZ` has this value. Reads files, so it blocks.
    ///
    /// The order is that of the C library: a file, a name or a rule in `TZ`, else the system's zone,
    /// else UTC.
    pub(in crate::codex_exec) fn of_variable(tz: Option<&OsStr>) -> Self {
        let Some(tz) = tz.and_then(OsStr::to_str) else {
            return Self(from_file(Path::new(SYSTEM_ZONE_FILE)).unwrap_or(TimeZone::UTC));
        };
        let name = tz.strip_prefix(':').unwrap_or(tz);
        if name.starts_with('/') {
            return Self(from_file(Path::new(name)).unwrap_or(TimeZone::UTC));
        }
        let named = TimeZone::get(name).ok();
        let zone = named.or_else(|| TimeZone::posix(name).ok());
        Self(zone.unwrap_or(TimeZone::UTC))
    }
}

fn from_file(file: &Path) -> Option<TimeZone> {
    TimeZone::tzif("child", &std::fs::read(file).ok()?).ok()
}

/// The reset time of a text, in seconds since 1970.
pub(super) fn reset_at(text: &str, zone: &ChildZone, now_ms: i64) -> Option<i64> {
    const START: &str = "try again at ";
    let lower = text.to_ascii_lowercase();
    let at = lower.find(START)? + START.len();
    let (date, time) = read(&lower[at..])?;
    let now = now_ms.div_euclid(1000);
    let instant = match date {
        Some(date) => *instants(DateTime::from_parts(date, time), zone)?.first()?,
        None => next_instant(time, zone, now)?,
    };
    Some(instant + PRECISION_SECONDS)
}

/// The instant with this time of day that is nearest from now on.
fn next_instant(time: Time, zone: &ChildZone, now: i64) -> Option<i64> {
    let today = zone.0.to_datetime(Timestamp::from_second(now).ok()?).date();
    for days in -1..=2 {
        let date = today.checked_add(Span::new().days(days)).ok()?;
        let instants = instants(DateTime::from_parts(date, time), zone)?;
        let is_near = |at: &i64| (now - BEHIND_SECONDS..=now + AHEAD_SECONDS).contains(at);
        if let Some(instant) = instants.into_iter().find(is_near) {
            return Some(instant);
        }
    }
    None
}

/// The instants of a local time, the later one first where clocks were set back.
fn instants(local: DateTime, zone: &ChildZone) -> Option<Vec<i64>> {
    let ambiguous = zone.0.to_ambiguous_timestamp(local);
    let instants = match ambiguous.offset() {
        AmbiguousOffset::Fold { .. } => vec![ambiguous.later().ok()?, ambiguous.earlier().ok()?],
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => {
            vec![ambiguous.compatible().ok()?]
        }
    };
    Some(instants.into_iter().map(Timestamp::as_second).collect())
}

/// Reads `feb 3rd, 2026 9:05 pm` or `9:05 pm`, lower case, at the beginning of a text.
fn read(text: &str) -> Option<(Option<Date>, Time)> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    let Some(month) = month(first) else {
        return Some((None, time(first, words.next()?)?));
    };
    let day = words.next()?.strip_suffix(',')?;
    let digits = day.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if !["st", "nd", "rd", "th"].contains(&&day[digits.len()..]) {
        return None;
    }
    let year = words.next()?.parse().ok()?;
    let date = Date::new(year, month, digits.parse().ok()?).ok()?;
    Some((Some(date), time(words.next()?, words.next()?)?))
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let index = MONTHS.iter().position(|month| *month == word)?;
    i8::try_from(index + 1).ok()
}

/// `9:05` and `pm`, with whatever ends the sentence.
fn time(clock: &str, half: &str) -> Option<Time> {
    let (hour, minute) = clock.split_once(':')?;
    if minute.len() != 2 || hour.is_empty() || hour.len() > 2 {
        return None;
    }
    let number = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse::<i8>().ok())?
    };
    let hour = number(hour).filter(|hour| (1..=12).contains(hour))?;
    let half = half.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let afternoon = match half {
        "am" => 0,
        "pm" => 12,
        _ => return None,
    };
    Time::new(hour % 12 + afternoon, number(minute)?, 0, 0).ok()
}

#[cfg(test)]
mod tests;
