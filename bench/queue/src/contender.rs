//! The servers that are measured, each with a home and a model of its own.
//!
//! The invariant here: whatever is asked of a contender is asked in words that Codex 0.166 knows, so
//! that both do the same; what only ours can do says so in its name.

use anyhow::Context as _;
use serde_json::{Value, json};
use turnlane_benchkit::{InstantModel, Program, Whose, Wire};
use turnlane_testkit::TempHome;

/// A program and the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `codex app-server`, standard input and output.
    Codex,
    /// `turnlane app-server`, standard input and output.
    Stdio,
    /// `turnlane serve`, its unix socket.
    Unix,
    /// `turnlane serve`, its websocket.
    WebSocket,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Codex, Self::Stdio, Self::Unix, Self::WebSocket];

    /// Codex beside the daemon.
    pub(crate) const TWO: [Self; 2] = [Self::Codex, Self::Unix];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Codex => "Codex 0.166, stdio",
            Self::Stdio => "ours, app-server, stdio",
            Self::Unix => "ours, serve, unix socket",
            Self::WebSocket => "ours, serve, websocket",
        }
    }

    fn whose(self) -> Whose {
        match self {
            Self::Codex => Whose::Codex,
            Self::Stdio | Self::Unix | Self::WebSocket => Whose::Ours,
        }
    }
}

/// A running server with one client that has said hello.
pub(crate) struct Contender {
    pub(crate) kind: Kind,
    pub(crate) program: Program,
    pub(crate) wire: Wire,
    pub(crate) model: InstantModel,
    pub(crate) home: TempHome,
    added: usize,
}

impl Contender {
    /// Starts it in a new home; `None` when Codex is not there.
    pub(crate) async fn start(kind: Kind) -> anyhow::Result<Option<Self>> {
        let model = InstantModel::start().await?;
        let home = TempHome::new()?;
        home.use_model(&model.base_url())?;
        let Some((program, wire)) = open(kind, &home).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            kind,
            program,
            wire,
            model,
            home,
            added: 0,
        }))
    }

    /// Those that are there.
    pub(crate) async fn all(kinds: &[Kind]) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for kind in kinds {
            all.extend(Self::start(*kind).await?);
        }
        Ok(all)
    }

    /// Ends it and starts it again in its home.
    pub(crate) async fn restart(self) -> anyhow::Result<Self> {
        let Self {
            kind,
            program,
            model,
            home,
            added,
            wire,
        } = self;
        drop(wire);
        program.end().await?;
        let (program, wire) = open(kind, &home).await?.context("it was there before")?;
        Ok(Self {
            kind,
            program,
            wire,
            model,
            home,
            added,
        })
    }

    /// Another client of the same server; for the daemon only.
    pub(crate) async fn another(&self) -> anyhow::Result<Wire> {
        Wire::greet(Program::unix(&self.home).await?).await
    }

    /// A new thread; its id. The client is its subscriber.
    pub(crate) async fn thread(&mut self) -> anyhow::Result<String> {
        let params = json!({"cwd": self.home.workspace()});
        let started = self.wire.call("thread/start", &params).await?;
        let id = started["thread"]["id"].as_str().context("a thread's id")?;
        Ok(id.to_owned())
    }

    /// A new thread whose first turn has asked the model, which is held until it is released.
    pub(crate) async fn busy_thread(&mut self) -> anyhow::Result<String> {
        let thread = self.thread().await?;
        self.model.hold();
        let before = self.model.asked();
        let params = json!({"threadId": thread, "input": said("first")});
        self.wire.confirm("turn/start", &params).await?;
        self.model.asked_by(before + 1).await?;
        Ok(thread)
    }

    /// What adds one more row to this thread.
    pub(crate) fn row(&mut self, thread: &str) -> Value {
        self.added += 1;
        row(thread, self.added)
    }

    /// Adds a row.
    pub(crate) async fn add(&mut self, thread: &str) -> anyhow::Result<()> {
        let params = self.row(thread);
        self.wire.confirm("thread/queue/add", &params).await
    }

    /// Adds rows, 32 in flight.
    pub(crate) async fn fill(&mut self, threads: &[String], rows: usize) -> anyhow::Result<()> {
        let mut under_way = 0;
        for thread in threads.iter().cycle().take(threads.len() * rows) {
            if under_way == IN_FLIGHT {
                self.wire.next_answer().await?;
                under_way -= 1;
            }
            let params = self.row(thread);
            self.wire.request("thread/queue/add", &params).await?;
            under_way += 1;
        }
        for _ in 0..under_way {
            self.wire.next_answer().await?;
        }
        Ok(())
    }

    /// A call about one thread; ours only where the method is ours.
    pub(crate) async fn about(&mut self, method: &str, thread: &str) -> anyhow::Result<()> {
        let params = json!({"threadId": thread});
        self.wire.confirm(method, &params).await
    }
}

/// How many adds of [`Contender::fill`] wait for their answers.
pub(crate) const IN_FLIGHT: usize = 32;

/// What adds the row with this number, unmistakably.
pub(crate) fn row(thread: &str, number: usize) -> Value {
    let text = format!("please do the work with the number {number}");
    json!({"threadId": thread, "input": said(&text), "clientUserMessageId": format!("row-{number}")})
}

fn said(text: &str) -> Value {
    json!([{"type": "text", "text": text, "text_elements": []}])
}

async fn open(kind: Kind, home: &TempHome) -> anyhow::Result<Option<(Program, Wire)>> {
    let arguments: &[&str] = match kind {
        Kind::Codex | Kind::Stdio => &["app-server"],
        Kind::Unix | Kind::WebSocket => &["serve"],
    };
    let Some(mut program) = Program::start(kind.whose(), home, arguments)? else {
        return Ok(None);
    };
    let duplex = match kind {
        Kind::Codex | Kind::Stdio => program.stdio()?,
        Kind::Unix => {
            program.ready().await?;
            Program::unix(home).await?
        }
        Kind::WebSocket => {
            program.ready().await?;
            program.websocket(home).await?
        }
    };
    let wire = Wire::greet(duplex).await?;
    Ok(Some((program, wire)))
}
