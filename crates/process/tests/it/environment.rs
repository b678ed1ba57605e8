//! What a child finds in its environment, end to end.

use turnlane_process::{EnvPolicy, Inherit, Options, ProcessService, Spec, StreamName};

use crate::support::{alone, listen, service, start, text};

const SECRETS: [(&str, &str); 9] = [
    ("OPENAI_API_KEY", "hush-1"),
    ("MY_SECRET", "hush-2"),
    ("GITHUB_TOKEN", "hush-3"),
    ("DB_PASSWORD", "hush-4"),
    ("TURNLANE_HOME", "hush-5"),
    ("CODEX_EXEC_SERVER_URL", "hush-6"),
    ("NODE_REPL_AUTH_TOKEN", "hush-7"),
    ("KNOWN_AS_SOMETHING_ELSE", "hush-1"),
    ("ALL_PROXY", "socks5://me:hush-9@127.0.0.1:9"),
];

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_the_service_never_reach_a_child() {
    let me = "environment::secrets_of_the_service_never_reach_a_child";
    if !alone(me, &SECRETS).await {
        return;
    }
    let service = ProcessService::start(Options {
        key_variables: vec!["OPENAI_API_KEY".to_owned()],
        ..Options::default()
    })
    .unwrap();
    for inherit in [Inherit::All, Inherit::Listed] {
        let mut spec = Spec::new(["/usr/bin/env"], "/");
        spec.env.policy = EnvPolicy {
            inherit,
            ignore_default_excludes: true,
            ..EnvPolicy::default()
        };
        let process = start(&service, spec).await;
        let shown = text(&listen(&process).await, StreamName::Stdout);
        assert!(shown.contains("PATH="), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        let has_proxy = shown.contains("ALL_PROXY=socks5://127.0.0.1:9");
        assert_eq!(has_proxy, inherit == Inherit::All, "{shown}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_inherits_nothing_has_exactly_what_it_was_given() {
    let service = service();
    let mut spec = Spec::new(["/usr/bin/env"], "/");
    spec.env.vars.insert("ONE".into(), "1".into());
    spec.env.vars.insert("TWO".into(), "a b\nc".into());
    let process = start(&service, spec).await;
    let shown = text(&listen(&process).await, StreamName::Stdout);
    assert_eq!(shown, "ONE=1\nTWO=a b\nc\n");
    service.stop().await;
}
