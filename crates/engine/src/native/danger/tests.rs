//! The list of dangerous commands, and what stands in front of them.
//!
//! The invariant here: every dangerous row has a harmless neighbour.

use proptest::prelude::*;

use super::*;

#[test]
fn what_destroys_is_dangerous() {
    for script in [
        "rm -f x",
        "rm -rf /",
        "rm -fr x",
        "rm -r -f x",
        "rm x -f",
        "rm --force x",
        "rm --recursive --forc x",
        "/bin/rm -rf x",
        "\\rm -rf x",
        "'rm' \"-rf\" x",
        "git reset --hard",
        "git reset --hard HEAD~1",
        "git -C /w reset --hard",
        "git -c a=b --git-dir x reset --hard",
        "git clean -f",
        "git clean -fdx",
        "git clean -d --force",
        "git push --force",
        "git push -f origin main",
        "git push origin main --force-with-lease",
        "git push --force-with-lease=main:abc",
        "git push origin +main",
        "git push --mirror",
        "mkfs /dev/sda",
        "mkfs.ext4 /dev/sda1",
        "dd if=x of=/dev/sda",
        "dd of=/dev/disk2 bs=1m",
        "shutdown -h now",
        "reboot",
        "halt",
        "poweroff",
        "init 0",
        "telinit 6",
        "systemctl poweroff",
        "systemctl -i reboot",
    ] {
        assert_eq!(is_dangerous(script), Danger::Yes, "{script}");
    }
}

#[test]
fn what_only_looks_like_it_is_not() {
    for script in [
        "",
        "rm x",
        "rm -r x",
        "rm -- -f",
        "rm -ri x",
        "echo rm -rf x",
        "grep -rf patterns .",
        "git reset --soft HEAD~1",
        "git reset HEAD -- --hard",
        "git clean -n",
        "git clean -nfd",
        "git push",
        "git push origin main",
        "git commit -m 'git push --force'",
        "git log --format=%h -f",
        "dd if=/dev/zero of=file",
        "dd if=/dev/sda of=/dev/null",
        "dd if=x of=/dev/fd/3",
        "systemctl status reboot.target",
        "init --version",
        "initdb 0",
        "mkfifo x",
        "cat shutdown",
        "echo '$(rm -rf x)'",
        "command -v rm -f",
        "sudo ls -f",
        "sh -c 'rm x' -f",
        "find . -name '*.o' -exec ls -f {} +",
        "cat <<'E'\nrm -rf x\nE",
        "rm $FLAGS",
        "# rm -rf x",
    ] {
        assert_eq!(is_dangerous(script), Danger::No, "{script}");
    }
}

#[test]
fn danger_is_seen_through_what_stands_in_front() {
    for script in [
        "sudo rm -rf x",
        "sudo -n -u root -- rm -rf x",
        "sudo -E A=b rm -rf x",
        "doas rm -rf x",
        "env A=b C=d rm -rf x",
        "env -i -u HOME rm -rf x",
        "env -S 'rm -rf x'",
        "env -S 'rm' -rf x",
        "A=b rm -rf x",
        "nohup rm -rf x",
        "command rm -rf x",
        "exec rm -rf x",
        "builtin exec -a name rm -rf x",
        "time nice -n 5 ionice -c 3 rm -rf x",
        "timeout -s KILL 5 rm -rf x",
        "stdbuf -o L setsid rm -rf x",
        "busybox rm -rf x",
        "ls | xargs -n 1 rm -f",
        "xargs -I {} rm -f {}",
        "find . -type f -exec rm -f {} \\;",
        "find . -exec ls {} + -execdir sudo rm -f {} \\;",
        "sh -c 'rm -rf x'",
        "bash -lc \"rm -rf x\"",
        "/usr/bin/zsh -e -c 'rm -rf x'",
        "bash -c -e 'rm -rf x'",
        "bash -o pipefail -ec 'rm -rf x'",
        "bash --norc -c 'rm -rf x'",
        "sudo env A=b sh -c 'cd y && sudo rm -rf x'",
        "sh -c \"sh -c 'rm -rf x'\"",
        "su root -c 'reboot'",
        "eval 'rm -rf x'",
        "eval rm -rf x",
        "trap 'rm -rf x' EXIT",
        "bash <<E\nrm -rf x\nE",
        "bash <<< 'rm -rf x'",
        "echo a && rm -rf x",
        "echo a; rm -rf x",
        "false || rm -rf x",
        "echo a | rm -rf x",
        "echo a & rm -rf x",
        "echo a\nrm -rf x",
        "(cd y; rm -rf x)",
        "{ rm -rf x; }",
        "if true; then rm -rf x; else echo; fi",
        "for f in *; do rm -f \"$f\"; done",
        "while ! rm -rf x; do :; done",
        "f() { rm -rf x; }; f",
        "function f { rm -rf x; }",
        "case a in b) rm -rf x;; esac",
        "echo $(rm -rf x)",
        "echo \"$(rm -rf x)\"",
        "echo `rm -rf x`",
        "echo ${A:-$(rm -rf x)}",
        "cat <(rm -rf x)",
        "cat <<E\n$(rm -rf x)\nE",
        "rm -rf x > log 2>&1",
        "2>/dev/null rm -rf x",
        "r''m -rf x",
        "$'rm' -rf x",
    ] {
        assert_eq!(is_dangerous(script), Danger::Yes, "{script}");
    }
}

#[test]
fn a_script_too_deep_to_be_read_is_dangerous() {
    let deep = format!("{}ls{}", "$(".repeat(100), ")".repeat(100));
    assert_eq!(is_dangerous(&deep), Danger::Yes);
    let wrapped = format!("{}ls", "eval ".repeat(100));
    assert_eq!(is_dangerous(&wrapped), Danger::Yes);
    let found = format!("{}ls", "find . -exec ".repeat(100_000));
    assert_eq!(is_dangerous(&found), Danger::Yes);
    assert_eq!(is_dangerous("eval eval eval ls"), Danger::No);
}

#[test]
fn a_long_script_is_looked_at_in_little_time() {
    let script = "sudo env A=b nice ls -l; ".repeat(40_000);
    assert_eq!(is_dangerous(&script), Danger::No);
    let wrappers = format!("{}rm -f x", "sudo ".repeat(100_000));
    assert_eq!(is_dangerous(&wrappers), Danger::Yes);
}

proptest! {
    #[test]
    fn any_script_is_judged(script in "(?s).{0,80}") {
        is_dangerous(&script);
    }

    #[test]
    fn any_grammar_is_judged(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "rm", " -f", " ", "\n", "'", "\"", "`", "$(", ")", "sudo ", "env ", "-S", "sh -c ",
                "eval ", "find ", "-exec ", ";", "|", "git ", "--", "timeout ", "function ",
            ]),
            0..30,
        ),
    ) {
        is_dangerous(&parts.concat());
    }

    #[test]
    fn danger_is_seen_between_any_harmless_commands(
        before in "(ls|echo a|cat 'x y')", joint in "(;|&&|\\|\\||\\||\n|&)", after in "(ls|echo)",
    ) {
        let script = format!("{before} {joint} rm -rf x {joint} {after}");
        prop_assert_eq!(is_dangerous(&script), Danger::Yes);
    }
}
