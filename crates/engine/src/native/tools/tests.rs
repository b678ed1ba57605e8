//! Tools as a turn calls them, with a lane that listens and answers as a test wants.
//!
//! The invariant here: whatever a call did, every item it started was completed once, and no planted
//! key was said; [`Stage::call`] checks both each time.

mod matrix;
mod patches;
mod pictures;
mod plans;
mod redaction;
mod schemas;
mod swaps;

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use turnlane_process::{ContainmentKind, Options, ProcessService};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy, WorkspaceWrite};
use turnlane_testkit::wait::{DEADLINE, within};

use super::*;
use crate::cancel::CancelReason;
use crate::event::Event;
use crate::hooks::NoHooks;
use crate::lane_end::{LaneEnd, channel};
use crate::native::environment::CommandEnvironment;
use crate::said::{ApprovalSubject, Said};

/// The time of every item.
const NOW_MS: i64 = 1_767_225_600_123;
/// A key that must not be said.
const KEY: &str = "sk-planted-0123456789";

/// What the lane does when it is asked.
enum Answer {
    Decide(Decided),
    /// Does something first, then decides.
    After(Box<dyn FnOnce() + Send>, Decided),
    /// Stops the turn.
    Stop,
    /// Accepts, but another worker has the lane.
    Fence,
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self::Decide(Decided::new(decision))
    }
}

/// A turn, its folders and its lane.
struct Stage {
    _home: tempfile::TempDir,
    /// The turn's folder; beside it lies `outside`.
    cwd: PathBuf,
    outside: PathBuf,
    turn: Arc<ToolTurn>,
    lane: LaneEnd,
    answers: VecDeque<Answer>,
    is_fenced: bool,
    /// What was said, in order.
    said: Vec<String>,
}

fn workspace() -> SandboxPolicy {
    SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
        exclude_slash_tmp: true,
        exclude_tmpdir_env_var: true,
        ..WorkspaceWrite::default()
    })
}

impl Stage {
    fn new() -> Self {
        Self::with(ApprovalPolicy::OnRequest, workspace())
    }

    fn with(approval_policy: ApprovalPolicy, sandbox_policy: SandboxPolicy) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (cwd, outside) = (root.join("project"), root.join("outside"));
        std::fs::create_dir_all(cwd.join(".git")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let (sink, control, lane) = channel(Arc::new(NoHooks));
        let options = Options {
            containment: Some(ContainmentKind::Group),
            ..Options::default()
        };
        let turn = ToolTurn {
            turn_id: TurnId::at(2, [2; 10]),
            settings: Arc::new(settings(&cwd, approval_policy, sandbox_policy)),
            tools: tool_settings(),
            sink,
            ask: control.ask,
            cancel: control.cancel,
            rules: Arc::default(),
            redactor: Arc::new(Redactor::new([KEY])),
            service: ProcessService::start(options).unwrap(),
            sessions: Arc::default(),
            diff: tokio::sync::Mutex::default(),
            clock: Arc::new(|| NOW_MS),
        };
        Self {
            _home: home,
            cwd,
            outside,
            turn: Arc::new(turn),
            lane,
            answers: VecDeque::new(),
            is_fenced: false,
            said: Vec::new(),
        }
    }

    fn answer(&mut self, answer: impl Into<Answer>) -> &mut Self {
        self.answers.push_back(answer.into());
        self
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.cwd.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What a file holds; none if it is not there.
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.cwd.join(path)).ok()
    }

    /// The names that lie outside.
    fn strays(&self) -> Vec<PathBuf> {
        let entries = self.outside.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Applies a patch around these lines.
    async fn patch(&mut self, inner: &str) -> Result<Output, Stop> {
        self.patch_with(Permission::Usual, inner).await
    }

    async fn patch_with(&mut self, permission: Permission, inner: &str) -> Result<Output, Stop> {
        let input = format!("*** Begin Patch\n{inner}\n*** End Patch");
        self.call("apply_patch", json!({"input": input}), permission)
            .await
    }

    /// Runs a call while the lane listens.
    async fn call(
        &mut self,
        name: &str,
        arguments: Value,
        permission: Permission,
    ) -> Result<Output, Stop> {
        let called = called(name, arguments, permission);
        let turn = Arc::clone(&self.turn);
        self.said.clear();
        let mut running = tokio::spawn(async move {
            match called.name.as_str() {
                "apply_patch" => patch::apply_patch(&turn, &called).await,
                "update_plan" => plan::update_plan(&turn, &called).await,
                _ => image::view_image(&turn, &called).await,
            }
        });
        let ended = within("the call", DEADLINE, async {
            loop {
                tokio::select! {
                    biased;
                    said = self.lane.said.recv() => self.hear(said.unwrap()),
                    ended = &mut running => break ended.unwrap(),
                }
            }
        });
        let ended = ended.await.unwrap();
        while let Ok(said) = self.lane.said.try_recv() {
            self.hear(said);
        }
        self.check(&ended);
        ended
    }

    /// Applies a patch while nobody listens.
    fn call_apart(&self, input: &str) -> JoinHandle<Result<Output, Stop>> {
        let called = called("apply_patch", json!({"input": input}), Permission::Usual);
        let turn = Arc::clone(&self.turn);
        tokio::spawn(async move { patch::apply_patch(&turn, &called).await })
    }

    fn check(&self, ended: &Result<Output, Stop>) {
        let count = |word: &str| {
            self.said
                .iter()
                .filter(|line| line.starts_with(word))
                .count()
        };
        if ended != &Err(Stop::Fenced) {
            assert_eq!(count("started"), count("completed"), "{:#?}", self.said);
        }
        assert!(count("started") <= 1, "{:#?}", self.said);
        let all = format!("{:?} {ended:?}", self.said);
        assert!(!all.contains(KEY), "{all}");
    }

    fn hear(&mut self, said: Said) {
        self.said.push(line(&said));
        match said {
            Said::Commit(reply) => {
                let fence = if self.is_fenced { Err(Fenced) } else { Ok(()) };
                let _ = reply.send(fence);
            }
            Said::Approve { reply, .. } => {
                let decided = match self.answers.pop_front().expect("nobody was to be asked") {
                    Answer::Decide(decided) => decided,
                    Answer::After(work, decided) => {
                        work();
                        decided
                    }
                    Answer::Stop => {
                        self.lane.cancel.cancel(CancelReason::Interrupt);
                        return;
                    }
                    Answer::Fence => {
                        self.is_fenced = true;
                        Decided::new(Decision::Accept)
                    }
                };
                let _ = reply.send(decided);
            }
            Said::Event(_) => {}
            other => panic!("tools do not say this: {other:?}"),
        }
    }

    /// The statuses of the item, in order, and whether somebody was asked between them.
    fn course(&self) -> Vec<&str> {
        let words = self.said.iter().map(|line| line.split(' ').next().unwrap());
        words.collect()
    }
}

impl PartialEq for Output {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.success, self.end_turn) == (&other.text, other.success, other.end_turn)
            && self.pictures == other.pictures
    }
}

/// What was said in one line; an item's status stands in the first word.
fn line(said: &Said) -> String {
    let status = |item: &Value| item["status"].as_str().unwrap_or("item").to_owned();
    match said {
        Said::Event(Event::ItemStarted(item)) => {
            format!("started:{} {}", status(&json!(item)), json!(item))
        }
        Said::Event(Event::ItemCompleted(item)) => {
            format!("completed:{} {}", status(&json!(item)), json!(item))
        }
        Said::Event(Event::Diff(diff)) => format!("diff {diff}"),
        Said::Event(Event::Plan { explanation, plan }) => {
            format!("plan {} {}", json!(explanation), json!(plan))
        }
        Said::Approve { request, .. } => match &request.subject {
            ApprovalSubject::FileChange {
                changes,
                grant_root,
                ..
            } => format!(
                "asked {} {} {grant_root:?} {:?}",
                request.item_id,
                json!(changes),
                request.reason
            ),
            ApprovalSubject::Command {
                command, actions, ..
            } => {
                format!("asked {} {command} {}", request.item_id, json!(actions))
            }
            ApprovalSubject::Permissions { permissions, .. } => {
                format!("asked {} {}", request.item_id, json!(permissions))
            }
        },
        Said::Commit(_) => "commit".to_owned(),
        other => format!("{other:?}"),
    }
}

fn settings(
    cwd: &Path,
    approval_policy: ApprovalPolicy,
    sandbox_policy: SandboxPolicy,
) -> TurnSettings {
    TurnSettings {
        model: "m".to_owned(),
        provider: "p".to_owned(),
        cwd: cwd.display().to_string(),
        runtime_workspace_roots: Vec::new(),
        environments: None,
        config: Map::new(),
        approval_policy,
        sandbox_policy,
        requires_sandbox: false,
        effort: None,
        summary: None,
        service_tier: None,
        output_schema: None,
        base_instructions: None,
        developer_instructions: None,
    }
}

fn called(name: &str, arguments: Value, permission: Permission) -> Called {
    Called {
        call_id: "call_1".to_owned(),
        item_id: "item_1".into(),
        name: name.to_owned(),
        arguments,
        permission,
        slot: Slot::default(),
    }
}

fn tool_settings() -> ToolSettings {
    ToolSettings {
        environment: CommandEnvironment::default().policy,
        shell: "sh".to_owned(),
        login: LoginShell::No,
        dangerous: Dangerous::Guarded,
        parallel_max: 8,
        output_tokens_max: 10_000,
        pictures: Pictures::Taken,
        withheld: BTreeSet::new(),
        variables: Vec::new(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is compared with what a call returns"
)]
fn failed(text: &str) -> Result<Output, Stop> {
    Ok(Output::failure(text))
}
