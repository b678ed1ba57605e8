//! Patterns of names: `*` is any run of characters, `?` is one, letters match in any case.
//!
//! A match takes time proportional to the product of both lengths at worst, whatever the pattern.
//! What is done with a name that matches is the business of `environment`.

use std::ffi::OsStr;

/// Whether it is a pattern and not just a name.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether the name matches one of the patterns.
pub(super) fn matches_any(patterns: &[impl AsRef<str>], name: &OsStr) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(pattern.as_ref(), name))
}

/// Whether the name matches. Bytes that are no UTF-8 count as one unknown character each.
pub(super) fn matches(pattern: &str, name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let mut pattern = pattern.chars();
    let mut rest = name.chars();
    // Where to go on when what follows the last star does not fit: one character further.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        let fits = match (pattern.next(), rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                rest = before;
                retry = Some((pattern.clone(), rest.clone()));
                true
            }
            (Some('?'), Some(_)) => true,
            (Some(wanted), Some(found)) => same(wanted, found),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !fits {
            let Some((after_star, from)) = retry.as_mut() else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            pattern = after_star.clone();
            rest = from.clone();
        }
    }
}

fn same(one: char, other: char) -> bool {
    one == other || one.to_lowercase().eq(other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks_match_in_any_case() {
        let cases = [
            ("", "", true),
            ("", "A", false),
            ("*", "", true),
            ("*", "ANY", true),
            ("?", "", false),
            ("?", "A", true),
            ("?", "ä", true),
            ("PATH", "PATH", true),
            ("path", "PATH", true),
            ("PATH", "PATHS", false),
            ("LC_*", "LC_ALL", true),
            ("LC_*", "LC_", true),
            ("LC_*", "XLC_ALL", false),
            ("*KEY*", "key", true),
            ("*KEY*", "MONKEYS", true),
            ("*KEY*", "KE Y", false),
            ("A*B*C", "AxxBxBxC", true),
            ("A*B*C", "AxxBxBx", false),
            ("A*??", "AB", false),
            ("A*??", "ABC", true),
            ("**A", "BA", true),
            ("ÄB", "äb", true),
        ];
        for (pattern, name, expected) in cases {
            let found = matches(pattern, OsStr::new(name));
            assert_eq!(found, expected, "{pattern:?} against {name:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_match_stars_and_question_marks_only() {
        let name = OsStr::from_bytes(b"A\xffB");
        assert!(matches("A?B", name));
        assert!(matches("A*", name));
        assert!(!matches("AxB", name));
    }

    /// The obvious way, which takes exponential time.
    fn model(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|skipped| model(rest, &name[skipped..])),
            (['?', rest @ ..], [_, after @ ..]) => model(rest, after),
            ([wanted, rest @ ..], [found, after @ ..]) => {
                wanted.eq_ignore_ascii_case(found) && model(rest, after)
            }
            ([], [_, ..]) | ([_, ..], []) => false,
        }
    }

    proptest! {
        #[test]
        fn a_match_is_what_the_obvious_way_finds(pattern in "[abAB*?]{0,8}", name in "[abAB]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = model(&chars(&pattern), &chars(&name));
            prop_assert_eq!(matches(&pattern, OsStr::new(&name)), expected);
        }
    }
}
