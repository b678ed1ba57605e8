//! The servers that are measured, each with a home of its own and a client.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use turnlane_benchkit::{Program, Whose};
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::{TempHome, TestClient};

/// A running server with one client that has said hello.
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) client: TestClient,
    home: TempHome,
    /// From the start of the program to the answer to `initialize`.
    pub(crate) started_in: Duration,
}

impl Server {
    /// Starts it in a new home; `None` when Codex is not there.
    pub(crate) async fn start(whose: Whose, mock: &MockModel) -> anyhow::Result<Option<Self>> {
        let home = TempHome::new()?;
        home.use_model(&mock.base_url())?;
        Self::start_in(whose, home).await
    }

    /// Starts it in this home.
    pub(crate) async fn start_in(whose: Whose, home: TempHome) -> anyhow::Result<Option<Self>> {
        let began = turnlane_benchkit::now();
        let Some(mut program) = Program::start(whose, &home, &["app-server"])? else {
            return Ok(None);
        };
        let mut client = TestClient::new(program.stdio()?);
        let params = json!({
            "clientInfo": {"name": "bench", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        let greeted = client.call("initialize", params).await;
        let started_in = began.elapsed();
        if let Err(error) = greeted {
            bail!(
                "{whose:?} did not start: {error}: {}",
                program.process.stderr_tail()
            );
        }
        client.notify("initialized", json!({})).await?;
        Ok(Some(Self {
            program,
            client,
            home,
            started_in,
        }))
    }

    /// Ends it by closing its input; how long it took, and its home.
    pub(crate) async fn end(mut self) -> anyhow::Result<(Duration, TempHome)> {
        let began = turnlane_benchkit::now();
        self.client.finish().await?;
        self.program.process.wait(Duration::from_secs(30)).await?;
        Ok((began.elapsed(), self.home))
    }

    /// The result of a call.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let answer = self.client.call(method, params).await?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("{method}: {answer}"),
        }
    }

    /// A new thread; its id.
    pub(crate) async fn thread(&mut self) -> anyhow::Result<String> {
        let params = json!({"cwd": self.home.workspace()});
        let started = self.call("thread/start", params).await?;
        let id = started["thread"]["id"].as_str().context("a thread's id")?;
        Ok(id.to_owned())
    }

    /// Starts a turn; its id.
    pub(crate) async fn begin(&mut self, thread: &str) -> anyhow::Result<String> {
        let started = self.call("turn/start", saying_hello(thread)).await?;
        turn_id(&started)
    }

    /// Starts a turn on each thread, all at once; their ids.
    pub(crate) async fn begin_all(&mut self, threads: &[String]) -> anyhow::Result<Vec<String>> {
        let mut asked = Vec::new();
        for thread in threads {
            let params = saying_hello(thread);
            asked.push(self.client.request("turn/start", params).await?);
        }
        let mut turns = Vec::new();
        for id in asked {
            turns.push(turn_id(&self.client.answer(id).await?["result"])?);
        }
        Ok(turns)
    }

    /// Waits for the end of a turn, which must be a good one.
    pub(crate) async fn completed(&mut self, turn: &str) -> anyhow::Result<()> {
        let is_end = |message: &Value| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == turn
        };
        let end = self.client.find("the end of the turn", is_end).await?;
        let status = &end["params"]["turn"]["status"];
        anyhow::ensure!(status == "completed", "{end}");
        Ok(())
    }
}

fn saying_hello(thread: &str) -> Value {
    let input = json!([{"type": "text", "text": "hello", "text_elements": []}]);
    json!({"threadId": thread, "input": input})
}

fn turn_id(started: &Value) -> anyhow::Result<String> {
    let id = started["turn"]["id"].as_str();
    Ok(id
        .with_context(|| format!("no turn's id in {started}"))?
        .to_owned())
}
