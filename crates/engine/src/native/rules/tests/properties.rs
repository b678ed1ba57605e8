//! Any text is read without a panic, and a forbidden command stays forbidden whatever surrounds it.

use proptest::prelude::*;

use super::*;

fn forbidding() -> RuleSet {
    of_user(
        "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\")\n\
         prefix_rule(pattern=[[\"git\", \"hg\"], \"push\"], decision=\"prompt\")\n\
         prefix_rule(pattern=[\"ls\"])",
    )
}

/// Text made of the letters that mean something to either reader.
fn dense() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z touch\"'`$(){}\\[\\]<>|&;=\\\\#*?,\n-]{0,80}").unwrap()
}

proptest! {
    #[test]
    fn any_rule_file_is_understood_or_refused(text in ".{0,200}") {
        let _ = parse::parse(&text, RuleOrigin::User);
    }

    #[test]
    fn any_dense_rule_file_is_understood_or_refused(text in dense()) {
        let text = format!("prefix_rule(pattern={text})");
        let _: Result<_, ParseError> = parse::parse(&text, RuleOrigin::User);
    }

    #[test]
    fn any_script_is_judged(script in dense()) {
        let _ = judge(&forbidding(), &script);
    }

    #[test]
    fn a_command_on_a_line_of_its_own_is_found(
        before in "[a-z $=;|&]{0,20}",
        after in "[a-z \"'`$(){}<>|&;]{0,20}",
    ) {
        let script = format!("{before}\ntouch f\n{after}");
        prop_assert!(is_forbidden(&forbidding(), &script), "{script}");
    }

    #[test]
    fn wrappers_hide_nothing(
        wrappers in proptest::collection::vec(
            prop::sample::select(vec![
                "env", "sudo", "nohup", "time", "command", "exec", "xargs", "env A=1", "nice",
            ]),
            0..6,
        ),
    ) {
        let script = format!("{} touch f", wrappers.join(" "));
        prop_assert!(is_forbidden(&forbidding(), &script), "{script}");
        let quoted = format!("sh -c '{script}'");
        prop_assert!(is_forbidden(&forbidding(), &quoted), "{quoted}");
    }
}

#[test]
fn long_scripts_are_judged_in_bounded_time_and_never_allowed() {
    let rules = forbidding();
    let many = "ls;".repeat(100_000);
    assert!(is_forbidden(&rules, &many), "too many commands to check");
    let unknown = "$x;".repeat(100_000);
    assert!(is_forbidden(&rules, &unknown));
    let nested = format!("{}touch f{}", "$(".repeat(500), ")".repeat(500));
    assert!(is_forbidden(&rules, &nested));
    let words = format!("ssh {}", "a ".repeat(3_000));
    assert_eq!(judge(&rules, &words), Verdict::Unmatched);
}
