//! What is refused before a child is made, and what a plan says about the rest.

use super::*;
use crate::spec::TerminalSize;

fn spec(argv: &[&str]) -> Spec {
    Spec::new(argv.iter().copied(), "/")
}

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn strings(list: &[CString]) -> Vec<&str> {
    list.iter().map(|text| text.to_str().unwrap()).collect()
}

fn kind(spec: &Spec, env: Vec<(OsString, OsString)>) -> SpawnErrorKind {
    prepare(spec, env).unwrap_err().kind
}

#[test]
fn no_arguments_at_all_are_refused() {
    assert_eq!(kind(&spec(&[]), Vec::new()), SpawnErrorKind::EmptyArgv);
}

#[test]
fn a_nul_byte_is_refused_wherever_it_is() {
    let nul = |spec: &Spec, pairs: &[(&str, &str)]| kind(spec, env(pairs));
    assert_eq!(nul(&spec(&["a\0b"]), &[]), SpawnErrorKind::NulByte);
    assert_eq!(nul(&spec(&["/a\0b"]), &[]), SpawnErrorKind::NulByte);
    assert_eq!(nul(&spec(&["a", "b\0"]), &[]), SpawnErrorKind::NulByte);
    assert_eq!(nul(&spec(&["a"]), &[("A\0", "b")]), SpawnErrorKind::NulByte);
    assert_eq!(nul(&spec(&["a"]), &[("A", "\0b")]), SpawnErrorKind::NulByte);
    assert_eq!(
        nul(&spec(&["a"]), &[("PATH", "/x\0")]),
        SpawnErrorKind::NulByte
    );
    let mut named = spec(&["a"]);
    named.arg0 = Some("x\0".into());
    assert_eq!(nul(&named, &[]), SpawnErrorKind::NulByte);
    let mut elsewhere = spec(&["a"]);
    elsewhere.cwd = "/a\0".into();
    assert_eq!(nul(&elsewhere, &[]), SpawnErrorKind::NulByte);
}

#[test]
fn a_variable_without_a_proper_name_is_refused_and_named() {
    for name in ["", "A=B", "="] {
        let error = prepare(&spec(&["a"]), env(&[(name, "x")])).unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::Other);
        assert!(error.detail.unwrap().starts_with(&format!("`{name}`")));
    }
}

#[test]
fn an_empty_program_is_not_found() {
    let error = prepare(&spec(&["", "x"]), env(&[("PATH", "/bin")])).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::ProgramNotFound);
    assert_eq!(error.os_error, Some(libc::ENOENT));
}

#[test]
fn a_name_is_looked_for_in_the_path_of_the_child() {
    let plan = prepare(&spec(&["tool"]), env(&[("PATH", "/a:rel::/b/")])).unwrap();
    assert_eq!(
        strings(&plan.programs),
        ["/a/tool", "rel/tool", "./tool", "/b//tool"]
    );
    let plan = prepare(&spec(&["tool"]), env(&[("PATH", "")])).unwrap();
    assert_eq!(strings(&plan.programs), ["./tool"]);
}

#[test]
fn without_a_path_there_is_a_default_one() {
    let plan = prepare(&spec(&["tool"]), Vec::new()).unwrap();
    let expected = ["/usr/local/bin/tool", "/usr/bin/tool", "/bin/tool"];
    assert_eq!(strings(&plan.programs), expected);
}

#[test]
fn a_name_with_a_slash_is_a_path() {
    let plan = prepare(&spec(&["bin/tool"]), env(&[("PATH", "/a")])).unwrap();
    assert_eq!(strings(&plan.programs), ["bin/tool"]);
}

#[test]
fn another_name_changes_what_the_program_sees_and_not_what_is_executed() {
    let mut spec = spec(&["/bin/tool", "x"]);
    spec.arg0 = Some("other".into());
    let plan = prepare(&spec, env(&[("A", "1"), ("B", "")])).unwrap();
    assert_eq!(strings(&plan.programs), ["/bin/tool"]);
    assert_eq!(strings(&plan.argv), ["other", "x"]);
    assert_eq!(plan.program.to_str().unwrap(), "/bin/tool");
    assert_eq!(strings(&plan.envp), ["A=1", "B="]);
}

#[test]
fn a_terminal_is_the_controlling_one() {
    let mut spec = spec(&["a"]);
    assert_eq!(prepare(&spec, Vec::new()).unwrap().terminal, Terminal::None);
    spec.io = Io::Pty(TerminalSize::default());
    let plan = prepare(&spec, Vec::new()).unwrap();
    assert_eq!(plan.terminal, Terminal::Controlling);
}

#[test]
fn limits_become_resource_limits_and_there_is_no_core_dump_unless_asked_for() {
    let mut spec = spec(&["a"]);
    let plan = prepare(&spec, Vec::new()).unwrap();
    assert_eq!(plan.rlimits, [(libc::RLIMIT_CORE, 0, 0)]);
    spec.limits = Limits {
        cpu_time: Some(Duration::from_millis(1_001)),
        address_space: Some(1),
        file_size: Some(2),
        open_files: Some(3),
        core: Some(4),
        ..Limits::default()
    };
    let plan = prepare(&spec, Vec::new()).unwrap();
    let expected = [
        (libc::RLIMIT_CPU, 2, 2),
        (libc::RLIMIT_AS, 1, 1),
        (libc::RLIMIT_FSIZE, 2, 2),
        (libc::RLIMIT_NOFILE, 3, 3),
        (libc::RLIMIT_CORE, 4, 4),
    ];
    assert_eq!(plan.rlimits, expected);
}

#[test]
fn processor_time_is_rounded_up_to_seconds() {
    let cases = [(0, 1), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (5_000, 5)];
    for (millis, seconds) in cases {
        assert_eq!(
            whole_seconds(Duration::from_millis(millis)),
            seconds,
            "{millis} ms"
        );
    }
    assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
}

#[test]
fn a_limit_of_processes_is_refused_where_it_would_not_hold() {
    let mut spec = spec(&["a"]);
    spec.limits.processes = Some(10);
    if rustix::process::getuid().is_root() {
        let error = prepare(&spec, Vec::new()).unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::ResourceLimit);
        assert!(error.detail.unwrap().contains("processes"));
    } else {
        let plan = prepare(&spec, Vec::new()).unwrap();
        assert!(plan.rlimits.contains(&(libc::RLIMIT_NPROC, 10, 10)));
    }
}
