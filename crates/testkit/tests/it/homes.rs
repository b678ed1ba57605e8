//! Temporary homes, as a child sees them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{MOCK_KEY, ProcessSpec, Provider, TempHome, TestProcess};

#[test]
fn the_folders_are_private_and_vanish() {
    let home = TempHome::new().unwrap();
    let path = home.path().to_owned();
    for folder in [home.turnlane(), home.codex(), home.user(), home.workspace()] {
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
    }
    drop(home);
    assert!(!path.exists());
}

#[test]
fn both_homes_name_the_mock_as_their_model() {
    let home = TempHome::new().unwrap();
    home.use_model("http://127.0.0.1:1/v1").unwrap();
    let expected = "model = \"mock-model\"\n\
                    model_provider = \"mock\"\n\
                    \n\
                    [model_providers.mock]\n\
                    name = \"mock\"\n\
                    base_url = \"http://127.0.0.1:1/v1\"\n\
                    wire_api = \"responses\"\n\
                    env_key = \"TURNLANE_MOCK_KEY\"\n";
    let turnlane = fs::read_to_string(home.turnlane().join("config.toml")).unwrap();
    assert_eq!(turnlane, expected);
    let codex = fs::read_to_string(home.codex().join("config.toml")).unwrap();
    assert!(codex.contains(expected), "{codex}");
}

#[test]
fn a_providers_limits_are_written_where_they_are_given() {
    let home = TempHome::new().unwrap();
    let provider = Provider {
        model: Some("gpt-5.5".to_owned()),
        request_max_retries: Some(0),
        stream_max_retries: None,
        stream_idle_timeout_ms: Some(1000),
    };
    home.use_provider("http://127.0.0.1:1/v1", &provider)
        .unwrap();
    let text = fs::read_to_string(home.turnlane().join("config.toml")).unwrap();
    assert!(text.starts_with("model = \"gpt-5.5\"\n"), "{text}");
    assert!(
        text.ends_with("request_max_retries = 0\nstream_idle_timeout_ms = 1000\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_child_sees_these_variables_and_no_others() {
    let home = TempHome::new().unwrap();
    let spec = ProcessSpec::new("env").envs(home.env());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    names.sort_unstable();
    assert!(names.contains(&("TURNLANE_MOCK_KEY", MOCK_KEY)));
    assert!(names.contains(&("HOME", home.user().to_str().unwrap())));
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "CODEX_HOME",
            "HOME",
            "LANG",
            "PATH",
            "TMPDIR",
            "TURNLANE_HOME",
            "TURNLANE_MOCK_KEY",
            "TZ",
        ]
    );
}
