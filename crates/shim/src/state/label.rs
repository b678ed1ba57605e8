//! Times as people read them.

/// A time in seconds since 1970, such as `Jan 2nd, 2030 9:05 PM UTC`.
pub(super) fn time(epoch_secs: i64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let days = epoch_secs.div_euclid(86_400);
    let second = epoch_secs.rem_euclid(86_400);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let (year, month, day) = civil(days);
    let month = usize::try_from(month - 1).unwrap_or(0);
    let suffix = match (day % 10, day % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    let half = if hour < 12 { "AM" } else { "PM" };
    let hour = match hour % 12 {
        0 => 12,
        hour => hour,
    };
    format!(
        "{} {day}{suffix}, {year} {hour}:{minute:02} {half} UTC",
        MONTHS[month]
    )
}

/// Year, month and day of a number of days since 1970, in the proleptic Gregorian calendar. The year is
/// taken to begin in March, so that the leap day is its last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_written_as_people_read_them() {
        assert_eq!(time(1_893_618_300), "Jan 2nd, 2030 9:05 PM UTC");
        assert_eq!(time(0), "Jan 1st, 1970 12:00 AM UTC");
        assert_eq!(time(1_709_208_000), "Feb 29th, 2024 12:00 PM UTC");
        assert_eq!(time(-1), "Dec 31st, 1969 11:59 PM UTC");
    }
}
