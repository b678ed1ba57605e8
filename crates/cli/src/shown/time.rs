//! Times for people: how long ago, in how long, and when exactly.
//!
//! The invariant here: pure; the present is always given. Times are Unix time, in seconds or
//! milliseconds as the names say; whoever writes a time of day says which zone it is in.

use std::time::Duration;

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;

/// A time that somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So long from now.
    In(Duration),
    /// In milliseconds since 1970.
    At(i64),
}

impl When {
    /// In milliseconds since 1970.
    pub(crate) fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::In(wait) => {
                let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
                now_ms.saturating_add(wait)
            }
            Self::At(at_ms) => at_ms,
        }
    }
}

/// `just now`, `5m ago`, `3h ago`, `2d ago`; the date when it is longer than a month.
pub(crate) fn ago(now_ms: i64, at_ms: i64) -> String {
    let seconds = (now_ms - at_ms) / 1_000;
    match seconds {
        ..MINUTE_S => "just now".to_owned(),
        MINUTE_S..HOUR_S => format!("{}m ago", seconds / MINUTE_S),
        HOUR_S..DAY_S => format!("{}h ago", seconds / HOUR_S),
        _ if seconds < 31 * DAY_S => format!("{}d ago", seconds / DAY_S),
        _ => utc(at_ms.div_euclid(1_000))[..10].to_owned(),
    }
}

/// `now`, `in 5m`, `in 3h`, `in 2d`, rounded up.
pub(crate) fn until(now_ms: i64, at_ms: i64) -> String {
    let seconds = (at_ms - now_ms + 999).div_euclid(1_000);
    let up = |unit: i64| (seconds + unit - 1) / unit;
    match seconds {
        ..=0 => "now".to_owned(),
        1..MINUTE_S => format!("in {seconds}s"),
        _ if up(MINUTE_S) < 120 => format!("in {}m", up(MINUTE_S)),
        _ if up(HOUR_S) < 48 => format!("in {}h", up(HOUR_S)),
        _ => format!("in {}d", up(DAY_S)),
    }
}

/// How long something took.
pub(crate) fn took(millis: i64) -> String {
    match millis {
        ..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{}m{:02}s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Seconds since 1970 as people write them.
pub(crate) fn utc(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    // The calendar of the Gregorian era, counted from the first of March of the year 0.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + next;
    let (hour, minute) = (rest / HOUR_S, rest % HOUR_S / MINUTE_S);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// `30m`, `8h`, `2d`, or a time with its zone: `2026-01-31T07:30:00Z`, `2026-01-31 07:30+01:00`.
pub(crate) fn parse_when(text: &str) -> Result<When, String> {
    let wrong = || {
        "expected how long (`90s`, `30m`, `8h`, `2d`) or a time with its zone \
         (`2026-01-31T07:30:00Z`, `2026-01-31T07:30+01:00`)"
            .to_owned()
    };
    let wait = parse_wait(text).map(When::In);
    wait.or_else(|| parse_time(text).map(When::At))
        .ok_or_else(wrong)
}

/// `90s`, `30m`, `8h`, `2d`.
pub(crate) fn parse_wait(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let count = text[..text.len() - 1].strip_prefix('+');
    let count = count.unwrap_or(&text[..text.len() - 1]);
    // At most 366 days are possible; whatever is longer is refused by the server.
    let count: u32 = count.parse().ok()?;
    Some(Duration::from_secs(u64::from(count) * seconds))
}

fn parse_time(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, zone_s) = zoned(time)?;
    let mut date = date.splitn(3, '-');
    let year = number(date.next()?, 1970..=9_999)?;
    let month = number(date.next()?, 1..=12)?;
    let day = number(date.next()?, 1..=last_day(year, month))?;
    let mut parts = time.splitn(3, ':');
    let hour = number(parts.next()?, 0..=23)?;
    let minute = number(parts.next()?, 0..=59)?;
    let second = match parts.next() {
        Some(second) => number(second.split('.').next()?, 0..=59)?,
        None => 0,
    };
    let of_day = hour * HOUR_S + minute * MINUTE_S + second;
    Some((days(year, month, day) * DAY_S + of_day - zone_s) * 1_000)
}

/// A time of day, and how far its zone is ahead of UTC.
fn zoned(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let at = time.rfind(['+', '-'])?;
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let zone_s = number(hours, 0..=23)? * HOUR_S + number(minutes, 0..=59)? * MINUTE_S;
    let sign = if time[at..].starts_with('-') { -1 } else { 1 };
    Some((&time[..at], sign * zone_s))
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten()?;
    range.contains(&number).then_some(number)
}

fn last_day(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970, by the same calendar as [`utc`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_893_531_900, "2030-01-01 21:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn distances_are_written_for_people() {
        let now = 1_893_531_900_000;
        let back = |seconds: i64| ago(now, now - seconds * 1_000);
        assert_eq!(back(-5), "just now");
        assert_eq!(back(59), "just now");
        assert_eq!(back(60), "1m ago");
        assert_eq!(back(7_199), "1h ago");
        assert_eq!(back(30 * 86_400), "30d ago");
        assert_eq!(back(31 * 86_400), "2029-12-01");
        let ahead = |seconds: i64| until(now, now + seconds * 1_000);
        assert_eq!(ahead(0), "now");
        assert_eq!(ahead(30), "in 30s");
        assert_eq!(ahead(599), "in 10m");
        assert_eq!(ahead(3_600), "in 60m");
        assert_eq!(ahead(8 * 3_600 - 1), "in 8h");
        assert_eq!(ahead(72 * 3_600), "in 3d");
        assert_eq!(took(999), "999ms");
        assert_eq!(took(1_250), "1.2s");
        assert_eq!(took(61_000), "1m01s");
    }

    #[test]
    fn a_wish_for_later_is_a_distance_or_a_time_with_its_zone() {
        assert_eq!(parse_when("8h"), Ok(When::In(Duration::from_hours(8))));
        assert_eq!(parse_when("+90s"), Ok(When::In(Duration::from_secs(90))));
        let at = |text: &str| parse_when(text).map(|when| when.at_ms(0));
        assert_eq!(at("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(at("2030-01-01T21:05:00Z"), Ok(1_893_531_900_000));
        assert_eq!(at("2030-01-01 22:05+01:00"), Ok(1_893_531_900_000));
        assert_eq!(at("2030-01-01T19:05:00.5-02:00"), Ok(1_893_531_900_000));
        assert_eq!(at("2000-02-29T00:00Z"), Ok(951_782_400_000));
        for wrong in [
            "",
            "h",
            "8",
            "-8h",
            "8w",
            "2030-01-01",
            "2030-01-01T21:05",
            "2030-02-29T00:00Z",
            "2030-13-01T00:00Z",
            "2030-01-01T24:00Z",
            "tomorrow",
            "ü",
        ] {
            assert!(parse_when(wrong).is_err(), "{wrong}");
        }
    }
}
