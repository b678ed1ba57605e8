//! The spellings by which a forbidden command is tried all the same.

use super::*;

const NO_TOUCH: &str = "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\")";

/// Scripts that run `touch`.
const SPELLINGS: [&str; 90] = [
    "touch f",
    "touch",
    "/usr/bin/touch f",
    "/usr/bin/../bin/touch f",
    "./touch f",
    "true && touch f",
    "false || touch f",
    "true; touch f",
    "true | touch f",
    "true & touch f",
    "true\ntouch f",
    "(touch f)",
    "{ touch f; }",
    "! touch f",
    "echo $(touch f)",
    "echo \"$(touch f)\"",
    "echo `touch f`",
    "echo ${x:-$(touch f)}",
    "cat <(touch f)",
    "touch >f",
    ">f touch",
    "2>&1 touch f",
    "A=1 touch f",
    "env touch f",
    "env -i A=1 touch f",
    "env -u A touch f",
    "env -S 'touch f'",
    "/usr/bin/env touch f",
    "sudo touch f",
    "sudo -u root -- touch f",
    "sudo --unheard-of value touch f",
    "nohup touch f",
    "time touch f",
    "time -p touch f",
    "command touch f",
    "command -p touch f",
    "exec touch f",
    "exec -a x touch f",
    "echo f | xargs touch",
    "echo f | xargs -n 1 touch",
    "echo f | xargs -I{} touch {}",
    "echo touch f | xargs env",
    "sh -c 'touch f'",
    "bash -lc 'touch f'",
    "zsh -c 'true && touch f'",
    "bash -c 'sh -c \"touch f\"'",
    "sudo env sh -c 'touch f'",
    "xargs sh -c 'touch f'",
    "echo touch f | sh",
    "sh <<EOF\ntouch f\nEOF",
    "sh <<'EOF'\nto''uch f\nEOF",
    "sh <<< 'touch f'",
    "cat <<EOF\n$(touch f)\nEOF",
    "eval touch f",
    "eval 'to''uch f'",
    "x=touch; $x f",
    "x=t; ${x}ouch f",
    "for x in touch; do $x f; done",
    "f() { touch f; }; f",
    "function f { touch f; }; f",
    "alias t=touch\nt f",
    "trap 'touch f' EXIT",
    "coproc touch f",
    "if true; then touch f; fi",
    "case a in a) touch f;; esac",
    "to''uch f",
    "\"touch\" f",
    "\\touch f",
    "to\\\nuch f",
    "$'\\x74ouch' f",
    "$'\\U00000074ouch' f",
    "$'\\164ouch' f",
    "/usr/bin/tou?h f",
    "/usr/bin/to[u]ch f",
    "/usr/bin/t*h f",
    "{touch,f}",
    "to{uc,}h f",
    "=touch f",
    "noglob touch f",
    "busybox touch f",
    "nice -n 5 touch f",
    "timeout 5 touch f",
    "setsid touch f",
    "find . -exec touch f \\;",
    "find . -exec sh -c 'touch f' \\;",
    "strace -f touch f",
    "script -c 'touch f' /dev/null",
    "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch f",
    "hash -p /usr/bin/touch t; t f",
    "printf -v x touch; $x f",
];

#[test]
fn a_forbidden_command_is_found_in_every_spelling() {
    let rules = of_user(NO_TOUCH);
    for script in SPELLINGS {
        assert!(is_forbidden(&rules, script), "{script}");
    }
}

#[test]
fn other_commands_are_not_forbidden() {
    let rules = of_user(NO_TOUCH);
    for script in [
        "ls touch",
        "echo touch",
        "grep touch f",
        "touchx f",
        "cat touch.txt | wc",
        "git commit -m 'touch f'",
        "cat <<EOF\ntouch f\nEOF",
        "env grep touch f",
        "command -v touch",
        "echo $HOME",
        "for x in a b; do echo $x; done",
        "sh -c 'echo a'",
    ] {
        assert_eq!(judge(&rules, script), Verdict::Unmatched, "{script}");
    }
}

#[test]
fn later_words_are_compared_one_by_one() {
    let rules =
        of_user("prefix_rule(pattern=[\"git\", [\"push\", \"pull\"]], decision=\"forbidden\")");
    for script in [
        "git push",
        "git pull origin",
        "git 'pu'sh",
        "x=push; git $x",
        "x=pu; git ${x}sh",
        "echo push | xargs git",
        "eval git push",
    ] {
        assert!(is_forbidden(&rules, script), "{script}");
    }
    for script in [
        "git",
        "git status push",
        "git $x",
        "git *",
        "gita push",
        "eval git status",
    ] {
        assert_eq!(judge(&rules, script), Verdict::Unmatched, "{script}");
    }
}

#[test]
fn the_strictest_rule_wins_wherever_it_stands() {
    let rules = rules(&[
        (
            RuleOrigin::Project,
            "prefix_rule(pattern=[\"rm\"], decision=\"allow\")",
        ),
        (
            RuleOrigin::User,
            "prefix_rule(pattern=[\"rm\", \"-r\"], decision=\"prompt\", justification=\"slow\")",
        ),
        (
            RuleOrigin::System,
            "prefix_rule(pattern=[\"rm\", \"-r\", \"/\"], decision=\"forbidden\", justification=\"no\")",
        ),
    ]);
    assert_eq!(judge(&rules, "rm a"), Verdict::Allowed);
    assert_eq!(
        judge(&rules, "rm -r a"),
        Verdict::Prompt("`rm -r a` requires approval: slow".to_owned())
    );
    assert_eq!(
        judge(&rules, "rm a; rm -r b; rm -r /"),
        Verdict::Forbidden("`rm a; rm -r b; rm -r /` rejected: no".to_owned())
    );
    let text = "`touch f` rejected: policy forbids commands starting with `touch`";
    assert_eq!(
        judge(&of_user(NO_TOUCH), "touch f"),
        Verdict::Forbidden(text.to_owned())
    );
}

#[test]
fn an_allow_rule_needs_every_command_and_known_words() {
    let rules = rules(&[
        (
            RuleOrigin::User,
            "prefix_rule(pattern=[\"git\", \"status\"])",
        ),
        (RuleOrigin::User, "prefix_rule(pattern=[\"ls\"])"),
        (RuleOrigin::Project, "prefix_rule(pattern=[\"make\"])"),
    ]);
    for script in [
        "git status",
        "git status --short && ls",
        "git status | ls\nls -l",
        "sh -c 'git status; ls'",
        "/usr/bin/git status > /dev/null",
    ] {
        assert_eq!(
            judge(&rules, script),
            Verdict::AllowedUnconfined,
            "{script}"
        );
    }
    for script in ["make", "make all && ls"] {
        assert_eq!(judge(&rules, script), Verdict::Allowed, "{script}");
    }
    for script in [
        "git",
        "git stat?s",
        "git status; rm f",
        "git status > f",
        "git status $(rm f)",
        "git status `rm f`",
        "git status $x",
        "(git status)",
        "git status &",
        "A=1 git status",
        "env git status",
        "sudo git status",
        "eval git status",
        "./git status",
        "/tmp/git status",
        "/usr/bin/../../tmp/git status",
        "=git status",
        "f() { git status; }",
        "./sh -c 'git status'",
        "if true; then git status; fi",
        "git status | sh",
        "git status | sh -c ls",
        "",
    ] {
        assert_eq!(judge(&rules, script), Verdict::Unmatched, "{script}");
    }
}

#[test]
fn listed_executables_are_the_only_paths_of_their_name() {
    let text = "host_executable(name=\"git\", paths=[\"/opt/bin/git\"])\n\
                prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\n\
                prefix_rule(pattern=[\"git\", \"log\"])";
    let listed = of_user(text);
    assert!(is_forbidden(&listed, "git push"));
    assert!(is_forbidden(&listed, "/opt//bin/./git push"));
    assert!(!is_forbidden(&listed, "/usr/bin/git push"));
    assert_eq!(
        judge(&listed, "/opt/bin/git log"),
        Verdict::AllowedUnconfined
    );
    assert_eq!(judge(&listed, "/usr/bin/git log"), Verdict::Unmatched);
    // A project's list does not narrow the user's rule.
    let rules = rules(&[
        (RuleOrigin::User, NO_TOUCH),
        (
            RuleOrigin::Project,
            "host_executable(name=\"touch\", paths=[\"/x/touch\"])",
        ),
    ]);
    assert!(is_forbidden(&rules, "/usr/bin/touch f"));
}

#[test]
fn a_rule_about_a_path_holds_for_that_path() {
    let rules = of_user("prefix_rule(pattern=[\"/opt/x/tool\"], decision=\"forbidden\")");
    assert!(is_forbidden(&rules, "/opt/x/tool a"));
    assert!(is_forbidden(&rules, "/opt//x/./tool a"));
    assert!(!is_forbidden(&rules, "/opt/y/tool a"));
    assert!(!is_forbidden(&rules, "tool a"));
}

#[test]
fn a_network_rule_that_denies_or_asks_closes_the_network() {
    let rule = |decision: &str| {
        let text = format!(
            "network_rule(host=\"a.example\", protocol=\"https\", decision=\"{decision}\")"
        );
        of_user(&text)
    };
    assert!(!rule("allow").closes_network());
    assert!(rule("prompt").closes_network());
    let warning = rule("deny").network_warning().unwrap();
    assert!(warning.contains("`a.example`"), "{warning}");
}
