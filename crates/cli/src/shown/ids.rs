//! Short forms of ids.
//!
//! Our ids begin with their time, so everything made within a minute begins the same. The short form is
//! therefore the end of an id, which is random. The invariant here: the short forms of one list differ
//! from each other, and every command that takes an id takes its short form. One that fits several
//! things of the store is refused there with all of them.

use std::collections::HashSet;

/// The length of a short id: 32 random bits. Among 10,000 threads the chance that any two share it is
/// about one in a hundred.
pub(crate) const SHORT_CHARS: usize = 8;

/// The short form of one id.
pub(crate) fn short(id: &str) -> String {
    ending(id, SHORT_CHARS)
}

/// The shortest ends, of at least [`SHORT_CHARS`], by which all of these differ, in their order.
pub(crate) fn shorts<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let ids: Vec<&str> = ids.into_iter().collect();
    let different = ids.iter().collect::<HashSet<_>>().len();
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or(0);
    let differ = |chars: &usize| {
        let ends: HashSet<_> = ids.iter().map(|id| ending(id, *chars)).collect();
        ends.len() == different
    };
    let chars = (SHORT_CHARS..longest).find(differ).unwrap_or(longest);
    ids.iter().map(|id| ending(id, chars)).collect()
}

fn ending(id: &str, chars: usize) -> String {
    let count = id.chars().count();
    id.chars().skip(count.saturating_sub(chars)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_is_the_random_end_of_an_id() {
        let id = "0198c0de-41aa-7000-8000-0123456789ab";
        assert_eq!(short(id), "456789ab");
        assert_eq!(short("ü7"), "ü7");
    }

    #[test]
    fn the_short_forms_of_a_list_differ() {
        let ids = [
            "0198c0de-41aa-7000-8000-0123456789ab",
            "0198c0de-41aa-7000-8000-0124456789ab",
            "0198c0de-41aa-7000-8000-000000000001",
        ];
        assert_eq!(shorts(ids), ["3456789ab", "4456789ab", "000000001"]);
        // The same thing twice is no reason for longer ids.
        assert_eq!(shorts([ids[0], ids[0]]), ["456789ab", "456789ab"]);
        assert_eq!(shorts([]), Vec::<String>::new());
    }
}
