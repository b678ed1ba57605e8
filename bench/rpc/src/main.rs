//! quick
#![allow(missing_docs, reason = "x")]
use std::time::Instant;
use turnlane_rpc::*;
fn serve(d: Duplex) {
    tokio::spawn(async move {
        let (_p, mut inbox) = Peer::start(d, PeerOptions::default());
        while let Some(m) = inbox.next().await {
            if let Incoming::Request(r) = m {
                r.responder.result(&serde_json::json!({"a":1}));
            }
        }
    });
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    for kind in ["memory", "unix"] {
        let (a, b) = if kind == "memory" {
            Duplex::memory()
        } else {
            let (a, b) = tokio::net::UnixStream::pair()?;
            let (ar, aw) = a.into_split();
            let (br, bw) = b.into_split();
            (Duplex::lines(ar, aw), Duplex::lines(br, bw))
        };
        serve(a);
        let (peer, _inbox) = Peer::start(b, PeerOptions::default());
        let mut lat = vec![];
        for _ in 0..20000 {
            let t = Instant::now();
            let _: serde_json::Value = peer.call("echo", &serde_json::json!({"x":1})).await?;
            lat.push(t.elapsed());
        }
        lat.sort();
        println!("{kind} p50 {:?} p99 {:?}", lat[10000], lat[19800]);
        let t = Instant::now();
        let n = 200000;
        let per = n / 64;
        let mut hs = vec![];
        for _ in 0..64 {
            let p = peer.clone();
            hs.push(tokio::spawn(async move {
                for _ in 0..per {
                    let _: serde_json::Value =
                        p.call("echo", &serde_json::json!({"x":1})).await.unwrap();
                }
            }));
        }
        for h in hs {
            h.await?;
        }
        println!(
            "{kind} 64 inflight {:.0}/s",
            n as f64 / t.elapsed().as_secs_f64()
        );
        // pipelined
        let t = Instant::now();
        let mut hs = vec![];
        for i in 0..200000i64 {
            let f = turnlane_rpc_frame(1_000_000 + i);
            hs.push(peer.ask(1_000_000 + i, f)?);
            if hs.len() == 2000 {
                for h in hs.drain(..) {
                    h.await?;
                }
            }
        }
        for h in hs {
            h.await?;
        }
        println!(
            "{kind} pipelined {:.0}/s",
            n as f64 / t.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
fn turnlane_rpc_frame(id: i64) -> bytes::Bytes {
    format!("{{\"id\":{id},\"method\":\"echo\",\"params\":{{\"x\":1}}}}").into()
}
