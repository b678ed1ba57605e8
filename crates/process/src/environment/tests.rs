//! Each rule of what a child gets to see, from tables.

use super::*;

/// What a service might have in its environment: one of each kind.
const SERVICE: [(&str, &str); 19] = [
    ("PATH", "/bin"),
    ("HOME", "/root"),
    ("LANG", "C"),
    ("LC_ALL", "C.UTF-8"),
    ("LC_TIME", "C"),
    ("XDG_RUNTIME_DIR", "/run"),
    ("HTTPS_PROXY", "http://proxy"),
    ("no_proxy", "localhost"),
    ("CARGO_HOME", "/cargo"),
    ("EDITOR", "vi"),
    ("MY_TOOL", "1"),
    ("MY_API_KEY", "secret-1"),
    ("XDG_SECRET", "secret-2"),
    ("LC_TOKEN", "secret-3"),
    ("DB_PASSWORD", "secret-4"),
    ("TURNLANE_TOKEN_FILE", "secret-5"),
    ("CODEX_EXEC_SERVER_URL", "secret-6"),
    ("OPENAI_FEDERATION_RULE_ID", "secret-7"),
    ("NODE_REPL_AUTH_TOKEN", "secret-8"),
];

fn service() -> Vec<(OsString, OsString)> {
    SERVICE
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn vars(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|&entry| entry.to_owned()).collect()
}

fn names(spec: &EnvSpec, env_pass: &[&str]) -> Vec<String> {
    spec.build(service(), &list(env_pass))
        .into_iter()
        .map(|(name, _)| name.into_string().unwrap())
        .collect()
}

/// Everything the lists let through.
fn all() -> EnvPolicy {
    EnvPolicy {
        inherit: Inherit::All,
        ignore_default_excludes: true,
        ..EnvPolicy::default()
    }
}

fn with(policy: EnvPolicy) -> EnvSpec {
    EnvSpec {
        policy,
        vars: BTreeMap::new(),
    }
}

const BASE: [&str; 9] = [
    "CARGO_HOME",
    "HOME",
    "HTTPS_PROXY",
    "LANG",
    "LC_ALL",
    "LC_TIME",
    "PATH",
    "XDG_RUNTIME_DIR",
    "no_proxy",
];

#[test]
fn by_default_a_child_sees_exactly_what_its_caller_gave() {
    assert!(EnvSpec::default().build(service(), &[]).is_empty());
    let spec = EnvSpec {
        vars: vars(&[("B", "2"), ("A", "1")]),
        ..EnvSpec::default()
    };
    let expected = vec![("A".into(), "1".into()), ("B".into(), "2".into())];
    assert_eq!(spec.build(service(), &list(&["MY_TOOL"])), expected);
}

#[test]
fn everything_means_the_allow_list_and_never_a_secret() {
    assert_eq!(names(&with(all()), &[]), BASE);
    // The default excludes find nothing that the lists had left.
    let mut policy = all();
    policy.ignore_default_excludes = false;
    assert_eq!(names(&with(policy), &[]), BASE);
}

#[test]
fn every_name_of_the_allow_list_passes() {
    let names = "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_X TZ TMPDIR TEMP TMP TERM COLORTERM \
        XDG_X http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY JAVA_HOME GOPATH \
        GOROOT CARGO_HOME RUSTUP_HOME NVM_DIR PYENV_ROOT VIRTUAL_ENV CONDA_PREFIX";
    for name in names.split_whitespace() {
        let env = with(all()).build([(name.into(), "x".into())], &[]);
        assert_eq!(env.len(), 1, "{name}");
    }
}

#[test]
fn core_is_the_few_names_a_shell_needs() {
    let core = with(EnvPolicy {
        inherit: Inherit::Core,
        ..EnvPolicy::default()
    });
    assert_eq!(
        names(&core, &["MY_TOOL"]),
        ["HOME", "LANG", "LC_ALL", "PATH"]
    );
}

#[test]
fn what_the_owner_passes_on() {
    // The entries, and what they add to the base.
    let cases: [(&[&str], &[&str]); 9] = [
        (&["MY_TOOL"], &["MY_TOOL"]),
        (&["my_tool"], &[]),
        (&["MY_*"], &["MY_TOOL"]),
        (&["my_*"], &["MY_TOOL"]),
        // An exact name is a decision, a pattern is not.
        (&["MY_API_KEY"], &["MY_API_KEY"]),
        (&["*"], &["EDITOR", "MY_TOOL"]),
        (&["DB_PASSWORD", "LC_TOKEN"], &["DB_PASSWORD", "LC_TOKEN"]),
        (&["TURNLANE_TOKEN_FILE"], &["TURNLANE_TOKEN_FILE"]),
        // Some names never pass, whoever lists them.
        (&["NODE_REPL_AUTH_TOKEN", "OPENAI_FEDERATION_RULE_ID"], &[]),
    ];
    for (env_pass, added) in cases {
        let mut expected: Vec<_> = BASE.iter().chain(added).copied().collect();
        expected.sort_unstable();
        assert_eq!(names(&with(all()), env_pass), expected, "{env_pass:?}");
    }
}

#[test]
fn the_default_excludes_hold_for_what_the_owner_passes_on() {
    let mut policy = all();
    policy.ignore_default_excludes = false;
    let found = names(&with(policy), &["MY_API_KEY", "DB_PASSWORD"]);
    assert!(!found.contains(&"MY_API_KEY".to_owned()));
    // Passwords are on the never-list only, which the exact name overrides.
    assert!(found.contains(&"DB_PASSWORD".to_owned()));
}

#[test]
fn excludes_drop_from_the_base_and_not_from_what_is_set() {
    let spec = with(EnvPolicy {
        exclude: list(&["lc_*", "?ANG", "HOME", "*proxy", "XDG_*"]),
        set: vars(&[("HOME", "/elsewhere")]),
        ..all()
    });
    assert_eq!(names(&spec, &[]), ["CARGO_HOME", "HOME", "PATH"]);
}

#[test]
fn what_is_set_may_look_like_a_secret() {
    let spec = with(EnvPolicy {
        set: vars(&[("API_TOKEN", "the caller's own")]),
        ..EnvPolicy::default()
    });
    assert_eq!(names(&spec, &[]), ["API_TOKEN"]);
}

#[test]
fn only_what_is_included_stays_of_base_and_set_but_the_callers_variables_stay() {
    let spec = EnvSpec {
        policy: EnvPolicy {
            set: vars(&[("ADDED", "1"), ("LC_ADDED", "2")]),
            include_only: list(&["PATH", "lc_*"]),
            ..all()
        },
        vars: vars(&[("MINE", "3")]),
    };
    let expected = ["LC_ADDED", "LC_ALL", "LC_TIME", "MINE", "PATH"];
    assert_eq!(names(&spec, &[]), expected);
}

#[test]
fn later_wins() {
    let mut spec = with(EnvPolicy {
        set: vars(&[("PATH", "/set"), ("LANG", "set")]),
        ..all()
    });
    spec.vars = vars(&[("PATH", "/caller")]);
    let env: BTreeMap<_, _> = spec.build(service(), &[]).into_iter().collect();
    assert_eq!(env[OsStr::new("PATH")], "/caller");
    assert_eq!(env[OsStr::new("LANG")], "set");
    assert_eq!(env[OsStr::new("HOME")], "/root");
}

#[test]
fn the_caller_may_give_any_name_but_those_that_never_pass() {
    let given = [
        ("MY_API_KEY", "x"),
        ("TURNLANE_X", "x"),
        ("OPENAI_IDENTITY_TOKEN_FILE", "x"),
        ("OPENAI_FEDERATION_RULE_ID", "x"),
        ("OPENAI_WORKLOAD_IDENTITY_CONTEXT", "x"),
        ("NODE_REPL_AUTH_TOKEN", "x"),
    ];
    let spec = EnvSpec {
        vars: vars(&given),
        ..EnvSpec::default()
    };
    assert_eq!(names(&spec, &[]), ["MY_API_KEY", "TURNLANE_X"]);
    let set = with(EnvPolicy {
        set: vars(&given),
        ..EnvPolicy::default()
    });
    assert_eq!(names(&set, &[]), ["MY_API_KEY", "TURNLANE_X"]);
}
