//! The calendar: seconds since 1970 as the texts that people and programs read.
//!
//! The invariant here: nothing asks a clock or the system's time zone; the time is in [`Now`] and
//! every text is in UTC and says so, so the same call gives the same text everywhere.
//!
//! Which times are shown is decided by the rows.

const DAY_SECONDS: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// What time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970.
    pub unix_ms: i64,
}

impl Now {
    /// Seconds since 1970.
    pub fn unix_seconds(self) -> i64 {
        self.unix_ms.div_euclid(1000)
    }

    /// A moment as `9:05 AM UTC`, with its date in front when that is not today's.
    ///
    /// Codex 0.166 writes local time in this form, without a zone. To know the local zone takes a
    /// call of the C library that is not sound beside other threads, so here the zone is named.
    pub(super) fn spoken(self, unix_seconds: i64) -> String {
        let then = Civil::at(unix_seconds);
        let today = Civil::at(self.unix_seconds());
        let half = if then.hour < 12 { "AM" } else { "PM" };
        let hour = match then.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let time = format!("{hour}:{:02} {half} UTC", then.minute);
        if (then.year, then.month, then.day) == (today.year, today.month, today.day) {
            return time;
        }
        let ending = match (then.day % 10, then.day) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            (_, _) => "th",
        };
        let month = MONTHS[then.month - 1];
        format!("{month} {}{ending}, {} {time}", then.day, then.year)
    }
}

/// A moment as `2030-01-01T09:05:00Z`.
pub(crate) fn rfc3339(unix_seconds: i64) -> String {
    let at = Civil::at(unix_seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year, at.month, at.day, at.hour, at.minute, at.second
    )
}

struct Civil {
    year: i64,
    /// From 1.
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Civil {
    fn at(unix_seconds: i64) -> Self {
        // Times are a provider's word; one beyond the year 9999 has no four-digit form.
        let seconds = unix_seconds.clamp(0, 253_402_300_799);
        let (mut day, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
        let mut year = 1970;
        while day >= year_days(year) {
            day -= year_days(year);
            year += 1;
        }
        let mut month = 1;
        while day >= month_days(year, month) {
            day -= month_days(year, month);
            month += 1;
        }
        Self {
            year,
            month,
            day: day + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_days(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_days(year: i64, month: usize) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_programs_read_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_893_488_700, "2030-01-01T09:05:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-5, "1970-01-01T00:00:00Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn moments_are_written_as_people_read_them() {
        let now = Now {
            unix_ms: 1_893_456_000_000,
        };
        let at = 1_893_488_700;
        let day = 86_400;
        for (seconds, text) in [
            (at, "9:05 AM UTC"),
            (at + 4 * 3600, "1:05 PM UTC"),
            (at - day, "Dec 31st, 2029 9:05 AM UTC"),
            (at + 11 * day, "Jan 12th, 2030 9:05 AM UTC"),
            (
                at + 21 * day - 9 * 3600 - 240,
                "Jan 22nd, 2030 12:01 AM UTC",
            ),
        ] {
            assert_eq!(now.spoken(seconds), text);
        }
    }
}
