//! A network between client and server that is slow: every byte comes later, and not too many of them a second. Counts them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    passed: Arc<AtomicU64>,
}

/// What is lost on the way.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// Each way.
    pub(crate) delay: Duration,
    /// Of each connection, each way.
    pub(crate) bytes_per_second: f64,
}

impl Proxy {
    pub(crate) fn new(to: u16, way: Way) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let passed = Arc::new(AtomicU64::new(0));
        let count = passed.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Dropped, the client sees that nobody is there.
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    to.set_nodelay(true).unwrap();
                    let from = from.try_clone().unwrap();
                    let to = to.try_clone().unwrap();
                    let (pieces, due) = channel();
                    let count = count.clone();
                    std::thread::spawn(move || take(from, &pieces, way, &count));
                    std::thread::spawn(move || give(to, &due));
                }
            }
        });
        Self { port, passed }
    }

    /// Bytes so far, both ways.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

fn take(mut from: TcpStream, pieces: &Sender<(Instant, Vec<u8>)>, way: Way, count: &AtomicU64) {
    let mut buffer = [0; 16 << 10];
    while let Ok(size @ 1..) = from.read(&mut buffer) {
        count.fetch_add(size as u64, Ordering::Relaxed);
        if pieces
            .send((Instant::now() + way.delay, buffer[..size].to_vec()))
            .is_err()
        {
            return;
        }
        std::thread::sleep(Duration::from_secs_f64(size as f64 / way.bytes_per_second));
    }
}

fn give(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    for (due, piece) in pieces {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
