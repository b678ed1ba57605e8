//! One turn through the SDK beside the same turn spoken by hand.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use turnlane::{Client, Endpoint};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_rpc::{Inbox, Incoming, Peer, PeerOptions};
use turnlane_server::{Embedded, EmbeddedConfig};

use turnlane_benchkit::Figures;

/// How many turns each way.
const TURNS: usize = 2_000;

pub(crate) async fn run() -> anyhow::Result<()> {
    let script = Script::parse(
        "bench",
        "version: 1\nfallback: {say: hello}",
        AbortSteps::Refused,
    )?;
    let engine = Arc::new(Scripted::new(script, Arc::new(|| 0)));
    let server = Embedded::start(EmbeddedConfig::new(engine)).await?;
    let began = turnlane_benchkit::now();
    let client = Client::connect(Endpoint::io(server.connect())).await?;
    let connected = began.elapsed();
    let thread = client.threads().start("/").await?;
    let mut by_hand = Hand::connect(&server).await?;
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..=TURNS {
        let began = turnlane_benchkit::now();
        by_hand.turn().await?;
        let hand = began.elapsed();
        let began = turnlane_benchkit::now();
        thread.turn("hello").await?;
        let sdk = began.elapsed();
        // The first turn of a thread loads it.
        if round > 0 {
            figures[0].add_time(hand);
            figures[1].add_time(sdk);
        }
    }
    turnlane_benchkit::println(
        "| a turn, embedded server, instant engine | by hand | SDK | added |",
    );
    turnlane_benchkit::println("| --- | ---: | ---: | ---: |");
    for percent in [50, 99] {
        let [hand, sdk] = turnlane_benchkit::both(&figures, percent);
        let added = sdk - hand;
        turnlane_benchkit::println(&format!(
            "| p{percent} ms | {hand:.3} | {sdk:.3} | {added:.3} |"
        ));
    }
    let connected = connected.as_secs_f64() * 1e3;
    turnlane_benchkit::println(&format!(
        "\nconnect and initialize, embedded: {connected:.2} ms"
    ));
    Ok(())
}

/// A client without any client code.
struct Hand {
    peer: Peer,
    inbox: Inbox,
    thread: String,
}

impl Hand {
    async fn connect(server: &Embedded) -> anyhow::Result<Self> {
        let (peer, inbox) = Peer::start(server.connect(), PeerOptions::default());
        let hello = json!({"clientInfo": {"name": "hand", "version": "0"},
            "capabilities": {"experimentalApi": true, "turnlane": {"version": 1}}});
        let _: Value = peer.call("initialize", &hello).await?;
        peer.tell("initialized", &json!({}))?;
        let started: Value = peer.call("thread/start", &json!({"cwd": "/"})).await?;
        let thread = started["thread"]["id"].as_str().context("a thread")?;
        Ok(Self {
            thread: thread.to_owned(),
            peer,
            inbox,
        })
    }

    /// One turn, to its end.
    async fn turn(&mut self) -> anyhow::Result<()> {
        let input = json!([{"type": "text", "text": "hello"}]);
        let params = json!({"threadId": self.thread, "input": input});
        let started: Value = self.peer.call("turn/start", &params).await?;
        let turn = started["turn"]["id"].as_str().context("a turn")?;
        while let Some(incoming) = self.inbox.next().await {
            let Incoming::Notification(told) = incoming else {
                continue;
            };
            if told.method == "turn/completed" {
                let params: Value = serde_json::from_slice(told.params.raw())?;
                ensure!(params["turn"]["id"] == turn, "another turn ended: {params}");
                return Ok(());
            }
        }
        anyhow::bail!("the server left")
    }
}
