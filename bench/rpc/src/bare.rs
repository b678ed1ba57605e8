//! The physical limit: a TCP echo on loopback with blocking reads and writes and nothing else.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::{Sample, TEXT_BYTES, now};

pub(crate) struct Server {
    addr: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || echo(stream));
            }
        });
        Ok(Self { addr })
    }

    /// Sends `in_flight` requests with one write, reads them back, and so on.
    pub(crate) fn echo(&self, in_flight: usize, requests: usize) -> anyhow::Result<Sample> {
        let mut stream = TcpStream::connect(self.addr)?;
        stream.set_nodelay(true)?;
        let frame = crate::ours::frame(1);
        debug_assert!(frame.len() > TEXT_BYTES);
        let batch = frame.repeat(in_flight);
        let mut echoed = vec![0; batch.len()];
        let mut sample = Sample::default();
        let start = now();
        while sample.requests < requests {
            let sent = now();
            stream.write_all(&batch)?;
            stream.read_exact(&mut echoed)?;
            sample.round_trips.push(sent.elapsed());
            sample.requests += in_flight;
        }
        sample.elapsed = start.elapsed();
        Ok(sample)
    }
}

fn echo(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count])?;
    }
}
