//! The servers that are measured, each with a home of its own and a client.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use turnlane_benchkit::Whose;
use turnlane_rpc::Duplex;
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::{ProcessSpec, TempHome, TestClient, TestProcess};

/// A running server with one client that has said hello.
pub(crate) struct Server {
    pub(crate) process: TestProcess,
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
        let Some(program) = whose.program()? else {
            return Ok(None);
        };
        let spec = ProcessSpec::new(program)
            .args(["app-server"])
            .envs(home.env());
        let spec = spec.current_dir(home.workspace());
        let began = turnlane_benchkit::now();
        let mut process = TestProcess::start(spec)?;
        let stdin = process.take_stdin().context("no standard input")?;
        let stdout = process.take_stdout().context("no standard output")?;
        let mut client = TestClient::new(Duplex::lines(stdout, stdin));
        let params = json!({
            "clientInfo": {"name": "bench", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        let greeted = client.call("initialize", params).await;
        let started_in = began.elapsed();
        if let Err(error) = greeted {
            bail!(
                "{whose:?} did not start: {error}: {}",
                process.stderr_tail()
            );
        }
        client.notify("initialized", json!({})).await?;
        Ok(Some(Self {
            process,
            client,
            home,
            started_in,
        }))
    }

    /// Ends it by closing its input; how long it took, and its home.
    pub(crate) async fn end(mut self) -> anyhow::Result<(Duration, TempHome)> {
        let began = turnlane_benchkit::now();
        self.client.finish().await?;
        self.process.wait(Duration::from_secs(30)).await?;
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

    /// Seconds the server itself has computed so far.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        let after_name = stat.rsplit_once(") ").context("a stat line")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks =
            |at: usize| -> anyhow::Result<u64> { Ok(fields.get(at).context("a field")?.parse()?) };
        // Fields 14 and 15, counted from the state, which is field 3; ticks of 10 ms.
        Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)).as_secs_f64())
    }

    /// Megabytes it holds.
    pub(crate) fn resident_mb(&self) -> anyhow::Result<f64> {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        Ok(self.process.rss_bytes()? as f64 / 1e6)
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
