//! Policies through the service: with every containment, with pipes and on a terminal.
//!
//! What a confined child may do in detail is tried beside the code; here it is shown that nothing on
//! the way from a spec to a child loses it.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::TempDir;
use turnlane_process::{
    ContainmentKind, End, FsEnforcement, Io, NetworkEnforcement, ProcessService, Sandbox, Snapshot,
    SpawnErrorKind, Spec, StreamSnapshot, Until,
};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{
    PIPE, PTY, end_of, is_alive, open_descriptors, say, service, services, sh_with, start,
    until_it_says,
};

/// A project in `/tmp` with a `.git`, and a directory that no policy here makes writable.
struct Project {
    dir: TempDir,
    outside: TempDir,
}

impl Project {
    fn new() -> Self {
        let project = Self {
            dir: tempfile::tempdir_in("/tmp").unwrap(),
            outside: tempfile::tempdir_in("/var/tmp").unwrap(),
        };
        fs::create_dir_all(project.root().join(".git")).unwrap();
        fs::write(project.root().join(".git/config"), "kept").unwrap();
        project
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn workspace(&self) -> Sandbox {
        Sandbox::WorkspaceWrite {
            roots: vec![self.root()],
            network: false,
            exclude_tmpdir: false,
            exclude_slash_tmp: false,
        }
    }

    /// A script in the project, told where outside is.
    fn spec(&self, script: &str, io: Io, sandbox: Sandbox) -> Spec {
        let mut spec = sh_with(script, io);
        spec.cwd = self.root();
        spec.sandbox = sandbox;
        let outside = self.outside.path().as_os_str().to_owned();
        spec.env.vars.insert("OUTSIDE".into(), outside);
        spec
    }

    fn is_untouched(&self) -> bool {
        fs::read(self.root().join(".git/config")).unwrap() == b"kept"
            && fs::read_dir(self.root().join(".git")).unwrap().count() == 1
            && fs::read_dir(self.outside.path()).unwrap().count() == 0
    }
}

/// Whether the machine can enforce a workspace; says so aloud if not.
fn can_confine(service: &ProcessService) -> bool {
    let report = service.report();
    let able = report.landlock.as_ref().is_ok_and(|abi| *abi >= 3)
        && report.seccomp.is_ok()
        && report.mounts.is_ok();
    if !able {
        say(&format!("SKIPPED: this machine cannot confine: {report:?}"));
    }
    able
}

fn text(snapshot: &Snapshot) -> String {
    let streams = [&snapshot.stdout, &snapshot.stderr, &snapshot.terminal];
    streams.map(StreamSnapshot::text).concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_confined_in_every_containment_with_pipes_and_on_a_terminal() {
    const SCRIPT: &str = "echo made > file && cat file; echo x > /dev/null || exit 1; \
        (echo x > $OUTSIDE/file) || echo outside refused; \
        (echo x > .git/config) || echo git refused; \
        mv ../project ../p2 || echo root stays; \
        setsid sh -c 'echo x > .git/new' || echo descendant refused; \
        exec touch $OUTSIDE/last";
    for service in services() {
        if !can_confine(&service) {
            return;
        }
        for io in [PIPE, PTY] {
            let project = Project::new();
            let spec = project.spec(SCRIPT, io, project.workspace());
            let process = start(&service, spec).await;
            let status = end_of(&process, Until::Closed).await;
            let snapshot = process.snapshot();
            let said = text(&snapshot);
            for line in [
                "made",
                "outside refused",
                "git refused",
                "root stays",
                "descendant refused",
            ] {
                assert!(said.contains(line), "{line} is missing in: {said}");
            }
            assert!(project.is_untouched());
            let confined = process.info().sandbox;
            assert_eq!(confined.policy, "workspace-write");
            assert_eq!(confined.fs, FsEnforcement::LandlockAndMounts);
            assert_eq!(confined.network, NetworkEnforcement::Seccomp);
            assert_ne!(status.code, 0);
            assert!(process.looks_denied());
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_a_read_only_process_works() {
    let service = service();
    if !can_confine(&service) {
        return;
    }
    let project = Project::new();
    let sandbox = Sandbox::ReadOnly { network: false };
    let script = "stty size < /dev/tty; echo typed: $(head -n 1 < $(tty)); touch x || exit 9";
    let process = start(&service, project.spec(script, PTY, sandbox)).await;
    until_it_says(&process, "24 80").await;
    process.write(Bytes::from_static(b"word\n")).await.unwrap();
    assert_eq!(end_of(&process, Until::Closed).await.code, 9);
    let said = text(&process.snapshot());
    assert!(said.contains("typed: word"), "{said}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_tree_is_ended_like_any_other() {
    for service in services() {
        if !can_confine(&service) {
            return;
        }
        let project = Project::new();
        let script = "setsid sleep 1000 & echo $! > pid; echo up; sleep 1000";
        let spec = project.spec(script, PIPE, project.workspace());
        let process = start(&service, spec).await;
        until_it_says(&process, "up").await;
        let leader = process.info().pid;
        let stray = fs::read_to_string(project.root().join("pid")).unwrap();
        let stray: i32 = stray.trim().parse().unwrap();
        process.end(End::Force);
        assert_eq!(end_of(&process, Until::Exited).await.code, 137);
        assert!(!is_alive(leader));
        if process.info().containment == ContainmentKind::Group {
            // Out of the group's reach, and not ours to leave behind; unless it was ended before it
            // had left the group.
            let pid = rustix::process::Pid::from_raw(stray).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        eventually("the stray one is gone", DEADLINE, async || !is_alive(stray))
            .await
            .unwrap();
        service.stop().await;
    }
}

/// Set in the process whose descriptors are counted.
const ALONE: &str = "TRY_REFUSED_POLICIES";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_policy_starts_nothing_and_leaves_nothing() {
    if std::env::var_os(ALONE).is_some() {
        return refused_policies().await;
    }
    // Other tests of this process open descriptors meanwhile.
    let service = service();
    let exe = std::env::current_exe().unwrap().into_os_string();
    let test = "sandbox::a_refused_policy_starts_nothing_and_leaves_nothing";
    let mut spec = Spec::new([exe, "--exact".into(), test.into()], "/");
    spec.env.vars = std::env::vars_os().collect();
    spec.env.vars.insert(ALONE.into(), "1".into());
    let process = start(&service, spec).await;
    let status = end_of(&process, Until::Closed).await;
    let said = text(&process.snapshot());
    assert!(status.code == 0 && said.contains("1 passed"), "{said}");
    service.stop().await;
}

async fn refused_policies() {
    let service = service();
    let project = Project::new();
    let root = |path: &str| Sandbox::WorkspaceWrite {
        roots: vec![PathBuf::from(path)],
        network: true,
        exclude_tmpdir: true,
        exclude_slash_tmp: true,
    };
    let can_confine = can_confine(&service);
    // The first command of a policy leaves a ruleset that the next ones use.
    if can_confine {
        let spec = project.spec("exit 3", PIPE, project.workspace());
        let process = start(&service, spec).await;
        assert_eq!(end_of(&process, Until::Gone).await.code, 3);
    }
    let before = open_descriptors();
    for path in ["/", "/nonexistent/root", "relative"] {
        let spec = project.spec("touch started", PTY, root(path));
        let error = service.spawn(spec).await.unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
        assert_eq!(error.path.as_deref(), Some(Path::new(path)));
    }
    // Nor do policies that are enforced.
    if can_confine {
        for _ in 0..20 {
            let spec = project.spec("exit 3", PIPE, project.workspace());
            let process = start(&service, spec).await;
            assert_eq!(end_of(&process, Until::Closed).await.code, 3);
        }
    }
    eventually("descriptors are closed", DEADLINE, async || {
        open_descriptors() == before
    })
    .await
    .unwrap();
    assert!(!project.root().join("started").exists());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_nothing_is_applied() {
    let service = service();
    let project = Project::new();
    let script = "grep NoNewPrivs /proc/self/status; echo permission denied; \
        echo x > $OUTSIDE/file && exit 5";
    let spec = project.spec(script, PIPE, Sandbox::DangerFullAccess);
    let process = start(&service, spec).await;
    let status = end_of(&process, Until::Closed).await;
    assert_eq!(status.code, 5);
    assert!(text(&process.snapshot()).contains("NoNewPrivs:\t0"));
    let confined = process.info().sandbox;
    assert_eq!(confined.policy, "danger-full-access");
    assert!(!confined.is_enforced());
    assert!(!process.looks_denied());
    service.stop().await;
}
