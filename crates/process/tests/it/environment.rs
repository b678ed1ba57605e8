//! What a child finds in its environment, end to end.

use turnlane_process::{EnvPolicy, Inherit, Spec, StreamName};

use crate::support::{alone, listen, service, start, text};

const SECRETS: [(&str, &str); 8] = [
    ("OPENAI_API_KEY", "hush-1"),
    ("MY_SECRET", "hush-2"),
    ("GITHUB_TOKEN", "hush-3"),
    ("DB_PASSWORD", "hush-4"),
    ("TURNLANE_HOME", "hush-5"),
    ("CODEX_EXEC_SERVER_URL", "hush-6"),
    ("NODE_REPL_AUTH_TOKEN", "hush-7"),
    ("SOMETHING_ELSE", "hush-8"),
];

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_the_service_never_reach_a_child() {
    let me = "environment::secrets_of_the_service_never_reach_a_child";
    if !alone(me, &SECRETS).await {
        return;
    }
    let service = service();
    let mut spec = Spec::new(["/usr/bin/env"], "/");
    spec.env.policy = EnvPolicy {
        inherit: Inherit::All,
        ignore_default_excludes: true,
        ..EnvPolicy::default()
    };
    let process = start(&service, spec).await;
    let shown = text(&listen(&process).await, StreamName::Stdout);
    assert!(shown.contains("PATH="), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
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
