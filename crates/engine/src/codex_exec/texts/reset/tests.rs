//! Reset times in three zones, over midnight and where clocks change.

use super::*;

fn zone(name: &str) -> ChildZone {
    ChildZone(TimeZone::get(name).unwrap())
}

fn second(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second()
}

/// The reset time that `text` names at `now` in `zone`, without the minute on top.
fn reset(text: &str, zone_name: &str, now: &str) -> Option<Timestamp> {
    let text = format!("You\u{2019}ve hit your usage limit. Visit x or try again at {text}.");
    let at = reset_at(&text, &zone(zone_name), second(now) * 1000)?;
    Some(Timestamp::from_second(at - 60).unwrap())
}

#[track_caller]
fn assert_reset(text: &str, zone_name: &str, now: &str, expected: &str) {
    let read = reset(text, zone_name, now).map(|at| at.to_string());
    assert_eq!(
        read.as_deref(),
        Some(expected),
        "{text} in {zone_name} at {now}"
    );
}

#[test]
fn a_time_without_a_date_is_the_next_one_in_the_zone_of_the_child() {
    let now = "2026-07-01T12:00:00Z";
    assert_reset("9:05 PM", "UTC", now, "2026-07-01T21:05:00Z");
    assert_reset("9:05 PM", "America/New_York", now, "2026-07-02T01:05:00Z");
    assert_reset("9:05 PM", "Asia/Kolkata", now, "2026-07-01T15:35:00Z");
    // Tomorrow, since it has passed today.
    assert_reset(
        "11:59 AM",
        "UTC",
        "2026-07-01T12:00:30Z",
        "2026-07-02T11:59:00Z",
    );
    // Over midnight, and the two twelves.
    assert_reset(
        "12:30 AM",
        "UTC",
        "2026-07-01T23:59:00Z",
        "2026-07-02T00:30:00Z",
    );
    assert_reset(
        "12:30 PM",
        "UTC",
        "2026-07-01T00:00:00Z",
        "2026-07-01T12:30:00Z",
    );
}

#[test]
fn the_current_minute_is_now_and_not_tomorrow() {
    assert_reset(
        "12:00 PM",
        "UTC",
        "2026-07-01T12:00:59Z",
        "2026-07-01T12:00:00Z",
    );
    // The minute before midnight, looked at after it.
    assert_reset(
        "11:59 PM",
        "UTC",
        "2026-07-02T00:00:00Z",
        "2026-07-01T23:59:00Z",
    );
}

#[test]
fn a_date_is_obeyed() {
    let now = "2026-07-01T12:00:00Z";
    assert_reset("Jul 3rd, 2026 9:05 PM", "UTC", now, "2026-07-03T21:05:00Z");
    assert_reset(
        "Jul 3rd, 2026 9:05 PM",
        "America/New_York",
        now,
        "2026-07-04T01:05:00Z",
    );
    assert_reset(
        "Jan 21st, 2027 1:00 AM",
        "Asia/Kolkata",
        now,
        "2027-01-20T19:30:00Z",
    );
    assert_reset(
        "Nov 2nd, 2026 10:15 am",
        "America/New_York",
        now,
        "2026-11-02T15:15:00Z",
    );
    assert_reset(
        "Aug 11th, 2026 10:15 AM",
        "America/New_York",
        now,
        "2026-08-11T14:15:00Z",
    );
}

#[test]
fn where_clocks_are_set_back_the_later_time_is_meant() {
    // In New York 1:30 comes twice on 2026-11-01: at 05:30 and at 06:30 UTC.
    let (zone, later) = ("America/New_York", "2026-11-01T06:30:00Z");
    assert_reset("1:30 AM", zone, "2026-11-01T03:00:00Z", later);
    assert_reset("1:30 AM", zone, "2026-11-01T05:45:00Z", later);
    assert_reset("Nov 1st, 2026 1:30 AM", zone, "2026-10-01T00:00:00Z", later);
    // After the second one it is tomorrow's.
    assert_reset(
        "1:30 AM",
        zone,
        "2026-11-01T06:45:00Z",
        "2026-11-02T06:30:00Z",
    );
    // The day has 25 hours: 3 AM of the next morning is 26 hours away, 2 AM is not.
    assert_reset(
        "2:00 AM",
        zone,
        "2026-11-01T05:00:00Z",
        "2026-11-01T07:00:00Z",
    );
}

#[test]
fn where_clocks_are_set_forward_the_hour_is_right() {
    // In Berlin 2:30 does not exist on 2026-03-29; 3:30 is at 01:30 UTC.
    let now = "2026-03-28T23:00:00Z";
    assert_reset("3:30 AM", "Europe/Berlin", now, "2026-03-29T01:30:00Z");
    assert_reset("2:30 AM", "Europe/Berlin", now, "2026-03-29T01:30:00Z");
    assert_reset("11:00 PM", "Europe/Berlin", now, "2026-03-29T21:00:00Z");
}

#[test]
fn other_texts_name_no_time() {
    let now = "2026-07-01T12:00:00Z";
    for text in [
        "later",
        "13:05 PM",
        "0:05 PM",
        "9:5 PM",
        "9:60 PM",
        "9 PM",
        "9:05",
        "9:05 XM",
        "-9:05 PM",
        "Jul 3, 2026 9:05 PM",
        "Jul 32nd, 2026 9:05 PM",
        "Foo 3rd, 2026 9:05 PM",
        "Jul 3rd, 2026",
        "",
    ] {
        assert_eq!(reset(text, "UTC", now), None, "{text}");
    }
    let later = "You've hit your usage limit. Try again later or try again later.";
    assert_eq!(reset_at(later, &zone("UTC"), 0), None);
}

#[test]
fn zones_are_read_as_the_c_library_reads_them() {
    let now = second("2026-07-01T12:00:00Z") * 1000;
    let hour = |tz: &str| {
        let zone = ChildZone::of_variable(Some(OsStr::new(tz)));
        reset_at("try again at 9:00 PM", &zone, now).unwrap() - 60 - now / 1000
    };
    assert_eq!(hour("UTC"), 9 * 3600);
    assert_eq!(hour(""), 9 * 3600);
    assert_eq!(hour(":America/New_York"), 13 * 3600);
    assert_eq!(hour("EST5EDT,M3.2.0,M11.1.0"), 13 * 3600);
    assert_eq!(hour("Not/AZone"), 9 * 3600);
    assert_eq!(hour("/nonexistent/zone"), 9 * 3600);
    // Whatever this machine's zone is, there is one.
    let _ = ChildZone::of_variable(None);
}
