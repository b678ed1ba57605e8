//! The version of a child, from the user agent it answers with.
//!
//! A user agent is `name/VERSION (system) ...`. One without a version cannot be checked and is refused,
//! because an older app-server speaks another protocol.

use super::launch::LaunchError;

/// The oldest version whose protocol we speak.
const OLDEST: (u32, u32) = (0, 151);

/// Refuses a child that is too old.
pub(super) fn check(user_agent: &str) -> Result<(), LaunchError> {
    let found = user_agent
        .split_once('/')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let numbers = found.and_then(|found| {
        let mut parts = found.split(['.', '-', '+']);
        let mut number = || parts.next()?.parse::<u32>().ok();
        Some((number()?, number()?))
    });
    match numbers {
        Some(numbers) if numbers >= OLDEST => Ok(()),
        _ => Err(LaunchError::TooOld {
            found: found.unwrap_or("no version").chars().take(64).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_0_151_on_are_taken() {
        for good in [
            "turnlane/0.166.0 (Debian 12.0.0; x86_64) xterm (turnlane; 1)",
            "x/0.151.0",
            "x/0.151.0-alpha.3 (a)",
            "x/1.0.0",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, found) in [
            ("x/0.150.9 (a)", "0.150.9"),
            ("x/0.9.200", "0.9.200"),
            ("x/rubbish", "rubbish"),
            ("x", "no version"),
            ("", "no version"),
        ] {
            let error = check(bad).unwrap_err();
            let text = format!(
                "engine 'codex' needs Codex 0.151 or newer, found {found}; use 'codex-exec'"
            );
            assert_eq!(error.to_string(), text);
        }
    }
}
