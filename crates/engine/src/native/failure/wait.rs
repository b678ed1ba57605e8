//! How long a provider asks to wait, from headers or from its text.
//!
//! The invariant here: a wait is finite, never negative and at most [`WAIT_MAX`]; what cannot be
//! read is no wait, never a guess.
//!
//! Whether anybody waits that long is decided by [`retry`](super::super::retry).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use super::Now;

/// The longest wait that is believed.
pub(super) const WAIT_MAX: Duration = Duration::from_hours(31 * 24);

/// The wait that a header of the answer names for every kind of failure.
pub(super) fn retry_after(headers: &HeaderMap, now: Now) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|ms| number(ms, 0.001)) {
        return Some(wait);
    }
    let after = text("retry-after")?;
    number(after, 1.0).or_else(|| {
        let now_ms = u64::try_from(now.unix_ms).unwrap_or(0);
        let now: SystemTime = UNIX_EPOCH + Duration::from_millis(now_ms);
        let at = httpdate::parse_http_date(after).ok()?;
        // A date that has passed means now.
        Some(at.duration_since(now).unwrap_or_default().min(WAIT_MAX))
    })
}

/// The wait until the limits that are used up are there again: the longest of them.
///
/// Providers send the state of all their limits; without a word on what remains each may be the
/// one that was hit.
pub(super) fn limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let mut longest = None;
    for (name, value) in headers {
        let Some(limit) = name.as_str().strip_prefix("x-ratelimit-reset-") else {
            continue;
        };
        let remaining = headers.get(format!("x-ratelimit-remaining-{limit}"));
        let remaining = remaining.and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok());
        if remaining.is_some_and(|left| left >= 1.0) {
            continue;
        }
        let wait = value.to_str().ok().and_then(|text| span(text.trim()));
        longest = longest.max(wait);
    }
    longest
}

/// The wait in a text like `please try again in 1.5s`.
pub(super) fn in_text(lower: &str) -> Option<Duration> {
    let (_, rest) = lower.split_once("try again in ")?;
    let mut end = 0;
    // The span ends at the first word that is neither a number nor a unit.
    for word in rest.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end().trim_end_matches(['.', ',', ';', ')', '!']);
        let is_number = bare.parse::<f64>().is_ok();
        if bare.is_empty() || (!is_number && parts(bare).is_none() && unit(bare).is_none()) {
            break;
        }
        end += word.len();
        if bare.len() < word.trim_end().len() {
            break;
        }
    }
    let text = rest[..end]
        .trim()
        .trim_end_matches(['.', ',', ';', ')', '!']);
    // A bare number in a sentence has no unit.
    if text.parse::<f64>().is_ok() {
        return None;
    }
    span(text)
}

/// A span: `20`, `1.5s`, `6m0s`, `20ms`, `2 minutes`.
fn span(text: &str) -> Option<Duration> {
    let joined: String = text.split_whitespace().collect();
    number(&joined, 1.0).or_else(|| seconds(parts(&joined)?))
}

/// The seconds of numbers with a unit each.
fn parts(mut text: &str) -> Option<f64> {
    let mut sum = 0.0;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = text[..end].parse().ok()?;
        text = &text[end..];
        let end = text
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(text.len());
        sum += number * unit(&text[..end])?;
        text = &text[end..];
    }
    Some(sum)
}

fn unit(word: &str) -> Option<f64> {
    Some(match word {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

fn number(text: &str, unit: f64) -> Option<Duration> {
    let starts = |c: char| c.is_ascii_digit() || c == '.';
    // Keeps out "inf" and "-1", which are numbers to the parser.
    text.starts_with(starts)
        .then(|| seconds(text.parse::<f64>().ok()? * unit))?
}

fn seconds(seconds: f64) -> Option<Duration> {
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    let ms = (seconds * 1000.0)
        .round()
        .min(WAIT_MAX.as_secs_f64() * 1000.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number within the bounds checked above"
    )]
    Some(Duration::from_millis(ms as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_millis())
    }

    #[test]
    fn spans_in_texts_are_read() {
        for (text, expected) in [
            ("please try again in 1.5s. visit us", Some(1500)),
            ("try again in 20ms", Some(20)),
            ("try again in 6m0s.", Some(360_000)),
            ("try again in 1h2m3.5s,", Some(3_723_500)),
            ("try again in 2 minutes and more", Some(120_000)),
            ("try again in 1 minute 30 seconds.", Some(90_000)),
            ("try again in 1.499s", Some(1499)),
            ("try again in 5 apples", None),
            ("try again in a moment", None),
            ("try again in ", None),
            ("try again later", None),
        ] {
            assert_eq!(ms(in_text(text)), expected, "{text}");
        }
    }

    #[test]
    fn headers_are_read_in_their_order() {
        let now = Now {
            unix_ms: 784_111_777_000,
        };
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            let pair = |(name, value): &(&'static str, &'static str)| {
                (
                    http::HeaderName::from_static(name),
                    http::HeaderValue::from_static(value),
                )
            };
            pairs.iter().map(pair).collect()
        };
        for (pairs, expected) in [
            (vec![("retry-after", "2")], Some(2000)),
            (vec![("retry-after", "1.5")], Some(1500)),
            (
                vec![("retry-after-ms", "250"), ("retry-after", "2")],
                Some(250),
            ),
            (
                vec![("retry-after-ms", "x"), ("retry-after", "2")],
                Some(2000),
            ),
            (
                vec![("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")],
                Some(10_000),
            ),
            (
                vec![("retry-after", "Sunday, 06-Nov-94 08:49:47 GMT")],
                Some(10_000),
            ),
            (
                vec![("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")],
                Some(0),
            ),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "inf")], None),
            (vec![("retry-after", "1e300")], Some(WAIT_MAX.as_millis())),
        ] {
            assert_eq!(
                ms(retry_after(&headers(&pairs), now)),
                expected,
                "{pairs:?}"
            );
        }
        let both = [
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(ms(limit_reset(&headers(&both))), Some(360_000));
        let mut told = both.to_vec();
        told.push(("x-ratelimit-remaining-tokens", "9000"));
        told.push(("x-ratelimit-remaining-requests", "0"));
        assert_eq!(ms(limit_reset(&headers(&told))), Some(1000));
    }
}
