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
    let service = ServiceEnv {
        vars: service(),
        pass: list(env_pass),
        keys: Vec::new(),
    };
    let env = spec.build(&service, SocketNames::Pass).into_iter();
    env.map(|(name, _)| name.into_string().unwrap()).collect()
}

/// The environment that a service with these variables and nothing else gives a child.
fn build(spec: &EnvSpec, vars: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let service = ServiceEnv {
        vars: vars
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        ..ServiceEnv::default()
    };
    spec.build(&service, SocketNames::Pass)
        .into_iter()
        .collect()
}

/// Everything the allow-list lets through; asks for more than a request may have.
fn listed() -> EnvPolicy {
    EnvPolicy {
        inherit: Inherit::Listed,
        ignore_default_excludes: true,
        ..EnvPolicy::default()
    }
}

/// Everything that is no secret; asks for more than a request may have.
fn all() -> EnvPolicy {
    EnvPolicy {
        inherit: Inherit::All,
        ..listed()
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
    assert!(names(&EnvSpec::default(), &[]).is_empty());
    let spec = EnvSpec {
        vars: vars(&[("B", "2"), ("A", "1")]),
        ..EnvSpec::default()
    };
    assert_eq!(names(&spec, &["MY_TOOL"]), ["A", "B"]);
    assert_eq!(build(&spec, &SERVICE), spec.vars);
}

#[test]
fn listed_means_the_allow_list_and_never_a_secret() {
    assert_eq!(names(&with(listed()), &[]), BASE);
    let mut policy = listed();
    policy.ignore_default_excludes = false;
    assert_eq!(names(&with(policy), &[]), BASE);
}

#[test]
fn all_means_everything_but_secrets() {
    let mut expected: Vec<_> = BASE.iter().chain(&["EDITOR", "MY_TOOL"]).collect();
    expected.sort_unstable();
    let found = names(&with(all()), &[]);
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn only_the_operators_own_policy_lets_names_of_secrets_pass() {
    let mut policy = all();
    policy.by_operator = true;
    let found = names(&with(policy.clone()), &[]);
    for passed in ["MY_API_KEY", "XDG_SECRET", "LC_TOKEN", "DB_PASSWORD"] {
        assert!(found.iter().any(|name| name == passed), "{passed}");
    }
    // Our own settings are not among them.
    for never in [
        "TURNLANE_TOKEN_FILE",
        "CODEX_EXEC_SERVER_URL",
        "OPENAI_FEDERATION_RULE_ID",
        "NODE_REPL_AUTH_TOKEN",
    ] {
        assert!(!found.iter().any(|name| name == never), "{never}");
    }
    policy.ignore_default_excludes = false;
    assert_eq!(names(&with(policy), &[]), names(&with(all()), &[]));
}

#[test]
fn a_providers_key_does_not_pass_under_another_name() {
    let vars = [
        ("MODEL_ACCESS", "k-1"),
        ("COPY", "k-1"),
        ("LANG", "k-1"),
        ("EMPTY_ACCESS", ""),
        ("EMPTY", ""),
        ("OTHER", "k-12"),
    ];
    let mut service = ServiceEnv {
        vars: vars
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
        keys: list(&["MODEL_ACCESS", "EMPTY_ACCESS", "UNSET_ACCESS"]),
        ..ServiceEnv::default()
    };
    let spec = with(EnvPolicy {
        by_operator: true,
        ..all()
    });
    let found = |service: &ServiceEnv| {
        let env = spec.build(service, SocketNames::Pass).into_iter();
        env.map(|(name, _)| name.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&service), ["EMPTY", "OTHER"]);
    service.pass = list(&["COPY", "*_ACCESS"]);
    assert_eq!(found(&service), ["COPY", "EMPTY", "OTHER"]);
}

#[test]
fn a_proxys_password_passes_only_if_the_owner_named_the_variable() {
    let vars = [
        ("http_proxy", "http://u:hush@h:1"),
        ("ALL_PROXY", "http://u:hush@h:1"),
    ];
    let mut service = ServiceEnv {
        vars: vars
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
        pass: list(&["*_proxy"]),
        ..ServiceEnv::default()
    };
    let values = |service: &ServiceEnv| {
        let env = with(all()).build(service, SocketNames::Pass).into_iter();
        env.map(|(_, value)| value.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&service), ["http://h:1", "http://h:1"]);
    service.pass = list(&["ALL_PROXY"]);
    assert_eq!(values(&service), ["http://u:hush@h:1", "http://h:1"]);
}

#[test]
fn names_of_the_users_sockets_do_not_reach_a_confined_child() {
    let vars = [
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus"),
        ("DOCKER_HOST", "unix:///run/docker.sock"),
        ("GPG_AGENT_INFO", "/run/gpg:1:1"),
        ("SSH_AUTH_SOCK", "/run/ssh"),
        ("XAUTHORITY", "/run/x"),
    ];
    let mut service = ServiceEnv {
        vars: vars
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
        ..ServiceEnv::default()
    };
    let spec = with(all());
    assert_eq!(spec.build(&service, SocketNames::Pass).len(), vars.len());
    assert_eq!(spec.build(&service, SocketNames::Drop), []);
    service.pass = list(&["SSH_AUTH_SOCK"]);
    let kept = spec.build(&service, SocketNames::Drop);
    assert_eq!(kept, [("SSH_AUTH_SOCK".into(), "/run/ssh".into())]);
    service.vars = vec![("DOCKER_HOST".into(), "tcp://build:2375".into())];
    assert_eq!(spec.build(&service, SocketNames::Drop).len(), 1);
    // What the caller gives is the caller's decision.
    let mut spec = spec;
    spec.vars.insert("SSH_AUTH_SOCK".into(), "/mine".into());
    assert_eq!(spec.build(&service, SocketNames::Drop).len(), 2);
}

#[test]
fn every_name_of_the_allow_list_passes() {
    let names = "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_X TZ TMPDIR TEMP TMP TERM COLORTERM \
        XDG_X http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY JAVA_HOME GOPATH \
        GOROOT CARGO_HOME RUSTUP_HOME NVM_DIR PYENV_ROOT VIRTUAL_ENV CONDA_PREFIX";
    for name in names.split_whitespace() {
        let env = build(&with(listed()), &[(name, "x")]);
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
        assert_eq!(names(&with(listed()), env_pass), expected, "{env_pass:?}");
    }
}

#[test]
fn an_exact_name_of_the_owner_overrides_the_default_excludes_of_a_request() {
    for inherit in [Inherit::All, Inherit::Listed] {
        let policy = EnvPolicy {
            inherit,
            ..EnvPolicy::default()
        };
        let found = names(&with(policy), &["MY_API_KEY", "DB_*"]);
        assert!(found.contains(&"MY_API_KEY".to_owned()), "{inherit:?}");
        assert!(!found.contains(&"DB_PASSWORD".to_owned()), "{inherit:?}");
    }
}

#[test]
fn excludes_drop_from_the_base_and_not_from_what_is_set() {
    let spec = with(EnvPolicy {
        exclude: list(&["lc_*", "?ANG", "HOME", "*proxy", "XDG_*"]),
        set: vars(&[("HOME", "/elsewhere")]),
        ..listed()
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
            ..listed()
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
        ..listed()
    });
    spec.vars = vars(&[("PATH", "/caller")]);
    let env = build(&spec, &SERVICE);
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
