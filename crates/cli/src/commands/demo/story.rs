//! The story of a demo, chapter by chapter.
//!
//! The invariant here: nothing is told that was not done and seen: the rows are read back from the
//! queue, the kill is waited for, what is left is looked for, and the end compares history and queue
//! with what was accepted. Dropping the story ends its worker.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use turnlane::{
    Approval, CallOptions, Client, Decision, Endpoint, Reconnect, Sandbox, Thread, ThreadBuilder,
    ThreadReadParams, TurnStatus, WorkspaceWrite,
};
use turnlane_process::{ContainmentKind, ProcessService};

use super::check::{Attempt, Found, Row, Tally, check};
use super::consent::Consent;
use super::folder::Folder;
use super::live::{Happened, Live};
use super::view::View;
use super::worker::{Worker, no_sandbox};
use crate::home;
use crate::shown::Ink;
use crate::shown::text::counted;

/// What is asked, in the words of the script.
const PROMPTS: [&str; 5] = [
    "What is in this folder?",
    "Write the report.",
    "Remove the old build.",
    "Run the long check.",
    "Sum it up.",
];

/// The turn whose worker is killed.
const KILLED: usize = 3;

/// How long a worker has to greet.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confined {
    Yes,
    No,
}

/// What the story is told with.
pub(super) struct Story<'a> {
    pub(super) view: &'a View,
    pub(super) folder: &'a Folder,
    pub(super) service: &'a ProcessService,
    pub(super) consent: Consent,
    /// Whether somebody wants to do without a sandbox.
    pub(super) wanted: Confined,
}

impl Story<'_> {
    /// Tells it to the end.
    pub(super) async fn tell(&self) -> anyhow::Result<Tally> {
        let confined = self.confinement().await?;
        self.view.chapter("1. A queue of turns, on disk").await?;
        let worker = self.worker("a worker runs").await?;
        let client = self.connect().await?;
        let builder = client.threads().start(self.folder.work());
        let thread = self.opened(builder, confined).await?;
        let rows = self.fill(&client, &thread, confined).await?;
        let mut live = Live::new(self.view, &rows, &client, thread.id(), confined);

        self.view
            .chapter("2. The lane runs them, one at a time")
            .await?;
        ask(&client, "thread/queue/resume", &thread).await?;
        let (pid, decision) = self.until_checking(&client, &mut live, &rows).await?;
        self.look_at_files(confined, &decision)?;

        self.view
            .chapter("3. kill -9, in the middle of a turn")
            .await?;
        let left = self.kill(worker, pid).await?;
        // The connection died with the worker.
        let id = thread.id().clone();
        drop((live, thread, client));

        self.view
            .chapter("4. Another worker, the same store")
            .await?;
        let worker = self.worker("a new worker runs").await?;
        self.say(1, Ink::Plain, &format!("it says: {}", worker.ready))?;
        let client = self.connect().await?;
        let builder = client.threads().resume(id);
        let thread = self.opened(builder, confined).await?;
        self.look_at_rest(&client, &thread, &rows).await?;
        let mut live = Live::new(self.view, &rows, &client, thread.id(), confined);
        self.say(
            0,
            Ink::Plain,
            "the demo retries it, as `turnlane queue retry` does",
        )?;
        ask(&client, "thread/queue/retry", &thread).await?;
        self.until_drained(&mut live, &rows).await?;

        let attempts = history(&client, &thread).await?;
        let waiting = thread.queue().await?.rows.len();
        drop((live, thread, client));
        let left_later = worker.stop().await?;
        Ok(check(&Found {
            rows: &rows,
            killed: &rows[KILLED].id,
            attempts: &attempts,
            waiting,
            processes: left.processes + left_later.processes,
        }))
    }

    fn say(&self, step: usize, ink: Ink, text: &str) -> anyhow::Result<()> {
        self.view.line(step, ink, text)
    }

    /// Whether commands are confined; says so where they are not.
    async fn confinement(&self) -> anyhow::Result<Confined> {
        let why = match self.wanted {
            Confined::Yes => no_sandbox(self.service, self.folder).await?,
            Confined::No => Some("--no-sandbox was given".to_owned()),
        };
        let Some(why) = why else {
            return Ok(Confined::Yes);
        };
        let text = format!(
            "no sandbox here ({why}; see `turnlane doctor`): \
             the demo's own commands run without one"
        );
        self.say(0, Ink::Yellow, &text)?;
        Ok(Confined::No)
    }

    async fn worker(&self, words: &str) -> anyhow::Result<Worker> {
        let worker = Worker::start(self.service, self.folder).await?;
        let pid = worker.pid();
        let text = format!("{words}: turnlane serve, pid {pid}");
        self.say(0, Ink::Green, &text)?;
        Ok(worker)
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        let limits = turnlane::Limits {
            handshake: HANDSHAKE,
            ..turnlane::Limits::default()
        };
        let connecting = Client::builder()
            .client_info("turnlane-demo", env!("CARGO_PKG_VERSION"))
            .endpoint(Endpoint::Unix(home::socket(&self.folder.home())))
            .reconnect(Reconnect::Never)
            .limits(limits)
            .reviews_elsewhere()
            .connect();
        // Boxed: what connecting may need is large.
        Box::pin(connecting)
            .await
            .context("the worker does not answer")
    }

    async fn opened(&self, builder: ThreadBuilder, confined: Confined) -> anyhow::Result<Thread> {
        let sandbox = match confined {
            Confined::Yes => Sandbox::workspace_write(),
            Confined::No => Sandbox::full_access(),
        };
        let opening = builder
            .cwd(self.folder.work())
            .approval(Approval::OnRequest)
            .sandbox(sandbox)
            .allow_privileged_escalation();
        opening.await.context("the worker does not open the thread")
    }

    /// Fills the queue of a lane that is held, and reads it back.
    async fn fill(
        &self,
        client: &Client,
        thread: &Thread,
        confined: Confined,
    ) -> anyhow::Result<Vec<Row>> {
        ask(client, "thread/queue/pause", thread).await?;
        let mut accepted = Vec::new();
        for prompt in PROMPTS {
            let turn = match confined {
                Confined::Yes => thread.turn(prompt).sandbox(in_the_work_folder()),
                Confined::No => thread.turn(prompt),
            };
            let queued = turn.enqueue().await;
            let queued = queued.with_context(|| format!("\"{prompt}\" was not accepted"))?;
            accepted.push(Row {
                id: queued.id().as_str().to_owned(),
                prompt: prompt.to_owned(),
            });
        }
        let count = counted(accepted.len(), "turn");
        let text = format!("{count} accepted: each was on disk before it was answered");
        self.say(0, Ink::Green, &text)?;
        let queue = thread.queue().await?;
        for (number, row) in queue.rows.iter().enumerate() {
            let prompt = row.raw["input"][0]["text"].as_str().unwrap_or_default();
            let line = format!("{}  {:<8} {prompt}", number + 1, row.state);
            self.say(1, Ink::Plain, &line)?;
        }
        let read: Vec<_> = queue.rows.iter().map(|row| row.id.as_str()).collect();
        if !accepted.iter().map(|row| row.id.as_str()).eq(read) {
            bail!("the queue does not hold what was accepted");
        }
        Ok(accepted)
    }

    /// Follows the lane until the command that is to be cut off runs: its pid, and what was decided.
    async fn until_checking(
        &self,
        client: &Client,
        live: &mut Live<'_>,
        rows: &[Row],
    ) -> anyhow::Result<(i32, Decision)> {
        let mut decision = None;
        loop {
            match live.next().await? {
                Happened::Asked(asked) => {
                    let decided = self.consent.ask(self.view, &asked).await?;
                    let approvals = client.approvals();
                    let answered = approvals.respond(asked.id.clone(), decided.clone()).await;
                    answered.context("the answer was not taken")?;
                    decision = Some(decided);
                }
                Happened::Checking { pid } => {
                    self.say(2, Ink::Dim, &format!("check runs as pid {pid}"))?;
                    let decision = decision.context("the agent did not ask")?;
                    return Ok((pid, decision));
                }
                Happened::Ended { row, status } => {
                    if row.as_deref() == Some(rows[KILLED].id.as_str()) {
                        bail!("the long check ended before its worker could be killed");
                    }
                    is_completed(&status)?;
                }
            }
        }
    }

    /// The commands were real: what they did and did not do is in the folder.
    fn look_at_files(&self, confined: Confined, decision: &Decision) -> anyhow::Result<()> {
        let work = self.folder.work();
        if !work.join("report.txt").exists() {
            bail!("the report was not written");
        }
        let is_outside = self.folder.path().join("outside.txt").exists();
        if confined == Confined::Yes && is_outside {
            bail!("a command wrote outside of its folder, in spite of its sandbox");
        }
        let is_built = work.join("build").exists();
        if (*decision == Decision::Accept) == is_built {
            bail!("the old build was not treated as it was decided");
        }
        Ok(())
    }

    /// Kills the worker; nothing of it may be left.
    async fn kill(&self, worker: Worker, pid: i32) -> anyhow::Result<super::worker::Left> {
        if !is_alive(pid) {
            bail!("the long check is not running as pid {pid}");
        }
        let text = format!(
            "kill -9 {}: the worker gets no time for anything",
            worker.pid()
        );
        self.say(0, Ink::Red, &text)?;
        let left = worker.kill().await?;
        if is_alive(pid) || left.processes > 0 {
            bail!("the command of the killed worker still runs as pid {pid}");
        }
        let text = match self.service.report().containment {
            ContainmentKind::Cgroup | ContainmentKind::Reaper => {
                format!("the command it ran, pid {pid}, is gone too; nothing of it is left")
            }
            // Whoever left the group is not seen here.
            ContainmentKind::Group => format!("the command it ran, pid {pid}, is gone too"),
        };
        self.say(0, Ink::Green, &text)?;
        Ok(left)
    }

    /// What a crash leaves: the turn interrupted, its row held, the rest waiting.
    async fn look_at_rest(
        &self,
        client: &Client,
        thread: &Thread,
        rows: &[Row],
    ) -> anyhow::Result<()> {
        let attempts = history(client, thread).await?;
        let last = attempts.last().context("the history is empty")?;
        let is_its = last.row.as_deref() == Some(rows[KILLED].id.as_str());
        if !is_its || last.status != TurnStatus::Interrupted {
            bail!("the turn that was cut off is not in the history as interrupted");
        }
        let count = attempts.len() - 1;
        let text = format!(
            "history: {} completed, turn {} interrupted",
            counted(count, "turn"),
            KILLED + 1
        );
        self.say(0, Ink::Plain, &text)?;
        let queue = thread.queue().await?;
        for row in &queue.rows {
            let prompt = row.raw["input"][0]["text"].as_str().unwrap_or_default();
            let line = format!("{:<8} {prompt}", row.state);
            let ink = if row.state == "failed" {
                Ink::Red
            } else {
                Ink::Plain
            };
            self.say(1, ink, &line)?;
            if let Some(message) = row.raw["status"]["error"]["message"].as_str() {
                self.say(2, Ink::Dim, message)?;
            }
        }
        let ids: Vec<_> = queue.rows.iter().map(|row| row.id.as_str()).collect();
        if !rows[KILLED..].iter().map(|row| row.id.as_str()).eq(ids) {
            bail!("the queue does not hold what is left to do");
        }
        let text = "it is not run again unasked: it may have had effects. The queue waits for you";
        self.say(0, Ink::Plain, text)
    }

    async fn until_drained(&self, live: &mut Live<'_>, rows: &[Row]) -> anyhow::Result<()> {
        let last = rows.last().map(|row| row.id.as_str());
        loop {
            if let Happened::Ended { row, status } = live.next().await? {
                is_completed(&status)?;
                if row.as_deref() == last {
                    return Ok(());
                }
            }
        }
    }
}

/// Writing in the working directory alone. The demo's folder is in a place for temporary files, where
/// commands may usually write, and its outside is to be seen as one.
fn in_the_work_folder() -> Sandbox {
    Sandbox::from(WorkspaceWrite {
        exclude_tmpdir_env_var: true,
        exclude_slash_tmp: true,
        ..WorkspaceWrite::default()
    })
}

/// A call about a thread that needs nothing but its id.
async fn ask(client: &Client, method: &str, thread: &Thread) -> anyhow::Result<Value> {
    let params = json!({"threadId": thread.id()});
    let answer = client
        .call_raw(method, params, CallOptions::default())
        .await;
    answer.with_context(|| format!("{method} was refused"))
}

/// The turns of a thread, the oldest first.
async fn history(client: &Client, thread: &Thread) -> anyhow::Result<Vec<Attempt>> {
    let params = ThreadReadParams {
        thread_id: thread.id().clone(),
        include_turns: true,
    };
    let read = client.thread_read(params).await;
    let read = read.context("the history cannot be read")?;
    Ok(read.turns.iter().map(Attempt::from).collect())
}

fn is_completed(status: &TurnStatus) -> anyhow::Result<()> {
    if *status != TurnStatus::Completed {
        bail!("a turn of the demo ended as {status:?}");
    }
    Ok(())
}

/// Whether a process exists and has not ended.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}
