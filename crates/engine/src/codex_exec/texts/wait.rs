//! Waits in texts: `try again in 1.5s`, `500ms`, `6m0s`.

/// The longest wait that is believed.
const WAIT_SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// The time named by `try again in …`, in seconds since 1970, rounded up.
pub(super) fn wait_until(text: &str, now_ms: i64) -> Option<i64> {
    let seconds = wait_seconds(text)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most a week, checked before"
    )]
    let wait_ms = (seconds * 1000.0).ceil() as i64;
    Some((now_ms + wait_ms + 999).div_euclid(1000))
}

fn wait_seconds(text: &str) -> Option<f64> {
    const START: &str = "try again in ";
    let text = text.to_ascii_lowercase();
    let (_, mut rest) = text.split_once(START)?;
    let mut total = 0.0;
    let mut has_part = false;
    loop {
        rest = rest.trim_start_matches(' ');
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let Ok(number) = number.parse::<f64>() else {
            break;
        };
        let after = after.trim_start_matches(' ');
        let letters = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let factor = match unit {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        total += number * factor;
        has_part = true;
        rest = after;
    }
    (has_part && total <= WAIT_SECONDS_MAX).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read() {
        for (text, seconds) in [
            ("Please try again in 0.1s.", 0.1),
            ("Try again in 20s", 20.0),
            ("try again in 500ms. Visit", 0.5),
            ("try again in 6m0s.", 360.0),
            ("try again in 1h2m3.5s", 3723.5),
            ("try again in 2 minutes.", 120.0),
        ] {
            let read = wait_seconds(text).unwrap();
            assert!((read - seconds).abs() < 1e-9, "{text}: {read}");
        }
        for text in [
            "try again in a while",
            "try again in 5 parsecs",
            "later",
            "try again in 9999999h",
        ] {
            assert_eq!(wait_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn the_time_is_rounded_up_to_the_second() {
        assert_eq!(wait_until("try again in 0.1s", 1_000_000), Some(1001));
        assert_eq!(wait_until("try again in 2s", 1_000_000), Some(1002));
        assert_eq!(wait_until("try again in 2s", 1_000_001), Some(1003));
    }
}
