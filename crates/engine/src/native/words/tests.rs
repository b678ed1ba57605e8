//! What scripts are read as.
//!
//! The invariant here: a shell would agree, or the shape says that more is needed to know.

use proptest::prelude::*;

use super::*;

/// The words of each command, joined by `·`; a pipe in front of one that reads from the one before.
fn told(script: &str) -> Vec<String> {
    let commands = read(script).commands.into_iter();
    let told = commands.map(|command| match command.joint {
        Joint::Next => command.words.join("·"),
        Joint::Pipe => format!("|{}", command.words.join("·")),
    });
    told.collect()
}

#[test]
fn plain_scripts_are_read_as_a_shell_reads_them() {
    for (script, expected) in [
        ("ls -l", vec!["ls·-l"]),
        ("  ls\t-l  ", vec!["ls·-l"]),
        ("a && b || c; d\ne", vec!["a", "b", "c", "d", "e"]),
        ("a | b |& c", vec!["a", "|b", "|c"]),
        ("a |\n  b", vec!["a", "|b"]),
        ("a 'b c' \"d e\" f\\ g", vec!["a·b c·d e·f g"]),
        ("a'b'\"c\"d", vec!["abcd"]),
        ("a '' \"\"", vec!["a··"]),
        (r#"a "b\"c\\d\e""#, vec![r#"a·b"c\d\e"#]),
        (r"a $'b\n\x41\101\'c'", vec!["a·b\nAA'c"]),
        ("a \\\n b", vec!["a·b"]),
        ("a # b; c\nd#e", vec!["a", "d#e"]),
        ("a 2>/dev/null >&2 2>&1 b 2", vec!["a·b·2"]),
        ("", vec![]),
        (" ; ;\n", vec![]),
        ("ä 'ö;ü'", vec!["ä·ö;ü"]),
    ] {
        assert_eq!(told(script), expected, "{script:?}");
        assert_eq!(read(script).shape, Shape::Plain, "{script:?}");
    }
}

#[test]
fn what_lies_within_is_listed_and_the_shape_says_so() {
    for (script, expected) in [
        ("a $(b c) d", vec!["b·c", "a·$·d"]),
        ("a \"x $(b \"c d\") y\"", vec!["b·c d", "a·x $ y"]),
        ("a `b \\`c\\``", vec!["c", "b·$", "a·$"]),
        ("(a; b) && c", vec!["a", "b", "c"]),
        ("$( (a) b )", vec!["a", "b", "$"]),
        ("a $b ${c:-$(d)}", vec!["d", "a·$b·$"]),
        ("a <(b) >(c)", vec!["b", "c", "a·$·$"]),
        ("a > file < other", vec!["a"]),
        ("a 3> file", vec!["a"]),
        ("a &> file", vec!["a"]),
        ("a & b", vec!["a", "b"]),
        ("f() { a; }", vec!["f", "{·a", "}"]),
        ("case x in y) a;; esac", vec!["case·x·in·y", "a", "esac"]),
        ("a 'open", vec!["a·open"]),
        ("a \"open", vec!["a·open"]),
        ("a $(open", vec!["open", "a·$"]),
    ] {
        assert_eq!(told(script), expected, "{script:?}");
        assert_eq!(read(script).shape, Shape::Complex, "{script:?}");
    }
}

#[test]
fn documents_in_the_script_are_no_commands() {
    let script = "cat <<'E' | b\nrm $(c)\nE\nd";
    let commands = read(script).commands;
    assert_eq!(told(script), ["cat", "|b", "d"]);
    assert_eq!(commands[0].here.as_deref(), Some("rm $(c)\n"));
    assert_eq!(told("cat <<E\nrm $(c)\nE\nd"), ["c", "cat", "d"]);
    assert_eq!(told("cat <<A <<B\n1\nA\n2\nB\nd"), ["cat", "d"]);
    assert_eq!(told("cat <<-E\n\trm\n\tE\nd"), ["cat", "d"]);
    assert_eq!(told("cat <<E\nnever closed"), ["cat"]);
    let given = read("sh <<< 'a b'").commands;
    assert_eq!(given[0].here.as_deref(), Some("a b"));
    // A quoted word that runs past the body must not be read twice.
    assert_eq!(told("a <<E \"\nE\n b\"\nc"), ["a·\nE\n b", "c"]);
}

#[test]
fn a_part_is_kept_as_it_stands() {
    let commands = read("cd 'a b' &&  ls -l | head ; x").commands;
    let texts: Vec<&str> = commands
        .iter()
        .map(|command| command.text.as_str())
        .collect();
    assert_eq!(texts, ["cd 'a b'", "ls -l", "head", "x"]);
}

#[test]
fn what_lies_too_deep_is_said_and_costs_little() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("${a:-", "}"),
        ("\"$(", ")\""),
        ("<(", ")"),
    ] {
        let script = format!("{}{}", open.repeat(10_000), close.repeat(10_000));
        assert_eq!(read(&script).shape, Shape::TooDeep, "{open}");
    }
    let fits = format!("{}a{}", "$(".repeat(DEPTH_MAX), ")".repeat(DEPTH_MAX));
    assert_eq!(read(&fits).shape, Shape::Complex);
}

#[test]
fn only_one_simple_command_has_words_that_rules_are_compared_with() {
    for (script, expected) in [
        ("git log -1", &["git", "log", "-1"][..]),
        (" git  log 'a b' \"c\"\n", &["git", "log", "a b", "c"]),
        ("git log 2>/dev/null", &["git", "log"]),
        ("git log # all of it", &["git", "log"]),
        ("FOO=1 git log", &["FOO=1", "git", "log"]),
    ] {
        let words = simple_command(script).unwrap();
        assert_eq!(words, expected, "{script:?}");
    }
    for script in [
        "",
        "git log; rm x",
        "git log && rm x",
        "git log || rm x",
        "git log | sh",
        "git log & rm x",
        "git log\nrm x",
        "git log > x",
        "git log < x",
        "git log $(rm x)",
        "git log `rm x`",
        "git log $x",
        "$'\\git' log",
        "git log \rx",
        "./run\rx",
        "(git log)",
        "git log 'open",
        "f() { git log; }",
    ] {
        assert_eq!(simple_command(script), None, "{script:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(script in "(?s).{0,80}") {
        read(&script);
    }

    #[test]
    fn any_grammar_is_read(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", " ", "\n", "'", "\"", "`", "$(", "${", "$'", "(", ")", "}", "\\", "<<E", "<<-E",
                "\nE\n", "<<<", "|", "&&", ";", ">", "<(", "2>", "#", "é", "\\x", "$", "&>",
            ]),
            0..40,
        ),
    ) {
        read(&parts.concat());
    }

    #[test]
    fn quoted_words_come_back(words in prop::collection::vec("[^']{0,8}", 1..5)) {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let commands = read(&quoted.join(" ")).commands;
        prop_assert_eq!(commands.len(), 1);
        prop_assert_eq!(&commands[0].words, &words);
    }
}
