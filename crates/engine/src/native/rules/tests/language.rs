//! The language of rule files: what is understood, and what stops every turn.

use super::*;

#[test]
fn a_file_of_all_calls_is_understood() {
    let text = r#"
# Comments may stand anywhere.
prefix_rule(
    pattern = ["git", ["push", 'fetch'],],  # with a trailing comma
    decision = "prompt",
    justification = """asks
first""",
    match = ["git push origin", ["git", "fetch"]],
    not_match = ["git status", "git 'push origin'"],
)
prefix_rule(pattern=["a\x62\u0063\\"]); host_executable(name="git", paths=["/opt/bin/git"])
network_rule(host = "example.com", protocol = "https", decision = "deny")
prefix_rule(pattern=[r"a\d"])
"#;
    let file = parse::parse(text, RuleOrigin::User).unwrap();
    assert_eq!(file.prefixes.len(), 3);
    let git = &file.prefixes[0];
    assert_eq!(git.pattern, [vec!["git"], vec!["push", "fetch"]]);
    assert_eq!(git.justification.as_deref(), Some("asks\nfirst"));
    assert_eq!(file.prefixes[1].pattern, [["abc\\"]]);
    assert_eq!(file.prefixes[2].pattern, [["a\\d"]]);
    assert_eq!(file.executables.len(), 1);
    assert_eq!(file.network[0].host, "example.com");
}

/// Files, and why they are refused.
const REFUSED: [(&str, &str); 26] = [
    (
        "\n\nx = 1\n",
        "3: only calls with literal arguments are understood",
    ),
    (
        "def f():\n  pass\n",
        "1: only calls with literal arguments are understood",
    ),
    (
        "load(\"a\", \"b\")",
        "1: arguments must be named, as in pattern = […]",
    ),
    (
        "prefix_rule([\"a\"])",
        "1: arguments must be named, as in pattern = […]",
    ),
    (
        "allow(a=[])",
        "1: `allow` is not understood; expected prefix_rule, host_executable or network_rule",
    ),
    ("prefix_rule()", "1: prefix_rule needs `pattern`"),
    (
        "prefix_rule(pattern=[])",
        "1: `pattern` must hold at least one word, and none that is empty",
    ),
    (
        "prefix_rule(pattern=[\"\"])",
        "1: `pattern` must hold at least one word, and none that is empty",
    ),
    (
        "prefix_rule(pattern=[[]])",
        "1: `pattern` must not hold an empty list",
    ),
    (
        "prefix_rule(pattern=\"touch\")",
        "1: `pattern` must be a list",
    ),
    (
        "prefix_rule(pattern=[True])",
        "1: `pattern` must hold strings and lists of strings",
    ),
    (
        "prefix_rule(pattern=[\"a\"],\n decision=\"deny\")",
        "2: `decision` must be `allow`, `prompt` or `forbidden`",
    ),
    (
        "prefix_rule(pattern=[\"a\"], decision=\"forbidden\", when=\"never\")",
        "1: prefix_rule has no argument `when`",
    ),
    (
        "prefix_rule(pattern=[\"a\"], pattern=[\"b\"])",
        "1: `pattern` is given twice",
    ),
    (
        "prefix_rule(pattern=[\"a\"], justification=\" \")",
        "1: `justification` must not be empty",
    ),
    (
        "prefix_rule(pattern=[\"a\"], justification=None)",
        "1: expected a string, a list, True or False",
    ),
    (
        "prefix_rule(pattern=[\"a\" + \"b\"])",
        "1: expected `,` or `]` in a list",
    ),
    (
        "prefix_rule(pattern=[\"a\"]",
        "1: expected `,` or `)` after an argument",
    ),
    (
        "prefix_rule(pattern=[\"a\"]) prefix_rule(pattern=[\"b\"])",
        "1: expected the end of the line after a call",
    ),
    (
        "prefix_rule(pattern=[\"a\n\"])",
        "1: a string is not closed on its line",
    ),
    (
        "prefix_rule(pattern=[\"a\\q\"])",
        "1: unknown escape in a string",
    ),
    (
        "prefix_rule(pattern=[[[[[\"a\"]]]]])",
        "1: lists are nested too deeply",
    ),
    (
        "host_executable(name=\"git\", paths=[\"git\"])",
        "1: `paths` must hold absolute paths",
    ),
    (
        "host_executable(name=\"git\", paths=[\"/bin/hg\"])",
        "1: `paths` must hold paths that end in the name",
    ),
    (
        "network_rule(host=\"a\", protocol=\"https\", decision=\"maybe\")",
        "1: `decision` must be `allow`, `prompt` or `deny`",
    ),
    (
        "network_rule(host=\"a\", protocol=\"gopher\", decision=\"deny\")",
        "1: `protocol` must be one of http, https, https_connect, http-connect, socks5_tcp, socks5_udp",
    ),
];

#[test]
fn everything_else_is_refused_with_its_line() {
    for (text, expected) in REFUSED {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn a_failed_example_refuses_its_file() {
    let text =
        "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\",\n  match=[\"git pull\"])";
    assert_eq!(
        problem(text),
        "2: `match` example is not matched by the rule: git pull"
    );
    let text = "prefix_rule(pattern=[\"git\"],\n\n not_match=[[\"/usr/bin/git\", \"pull\"]])";
    assert_eq!(
        problem(text),
        "3: `not_match` example is matched by the rule: /usr/bin/git pull"
    );
    let text = "prefix_rule(pattern=[\"git\"], match=[\"git a && git b\"])";
    assert_eq!(
        problem(text),
        "1: `match` must hold examples of one command each"
    );
}
