//! A small HTTP server of the loopback: each connection has a thread, one request and bounds, so that no client keeps others,
//! or who answers, waiting.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

/// Bytes of a request's first line and its headers.
const LARGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Open connections; browsers open six at a time.
const MOST_CONNECTIONS: usize = 64;
/// The time for a client to close what was answered, before this end does.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a client may do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: u64,
    /// The time for a request's head to arrive, and for each piece of a body or an answer to move on.
    pub patience: Duration,
}

/// Listens on the loopback until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    requests: Receiver<Request>,
    is_over: Arc<AtomicBool>,
}

/// A request that waits for its answer; without one its connection is closed.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// The path and query, as the client wrote them.
    pub target: String,
    /// The header `Host`.
    pub host: Option<String>,
    pub body: Vec<u8>,
    answers: SyncSender<Answer>,
}

/// What goes back.
#[derive(Debug)]
pub struct Answer {
    /// `200 OK`
    pub status: &'static str,
    /// Headers, each a line without its end.
    pub headers: Vec<String>,
    pub content: Content,
}

#[derive(Debug)]
pub enum Content {
    Bytes(Vec<u8>),
    /// A file and its size.
    File(File, u64),
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }
}

impl Request {
    /// Sends an answer. It goes out on the connection's own thread; a client that went away is no error.
    pub fn answer(self, answer: Answer) {
        let _ = self.answers.send(answer);
    }
}

impl Server {
    /// Opens a port of 127.0.0.1; 0 stands for any that is free.
    pub fn open(port: u16, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let (sender, requests) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        std::thread::Builder::new()
            .name("loopback".into())
            .spawn(move || accept(&listener, &sender, &ends, limits))?;
        Ok(Self {
            address,
            requests,
            is_over,
        })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next request, if one comes in time.
    pub fn next(&self, patience: Duration) -> io::Result<Option<Request>> {
        match self.requests.recv_timeout(patience) {
            Ok(request) => Ok(Some(request)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("nothing listens on the port any more"))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes who accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(
    listener: &TcpListener,
    requests: &Sender<Request>,
    is_over: &AtomicBool,
    limits: Limits,
) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, say: it may pass.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let held = Held::of(&open);
        if open.load(Ordering::Relaxed) > MOST_CONNECTIONS {
            refuse(&stream, "503 Service Unavailable");
            continue;
        }
        let requests = requests.clone();
        let connection = std::thread::Builder::new().name("connection".into());
        // Without a thread the connection is closed.
        let _ = connection.spawn(move || {
            let _held = held;
            let _ = serve(stream, &requests, limits);
        });
    }
}

/// Counts a connection for as long as it is open.
struct Held(Arc<AtomicUsize>);

impl Held {
    fn of(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, requests: &Sender<Request>, limits: Limits) -> io::Result<()> {
    stream.set_write_timeout(Some(limits.patience))?;
    let (sender, answers) = mpsc::sync_channel(1);
    let request = match read(&mut stream, sender, limits) {
        Ok(request) => request,
        Err(Refused::With(status)) => {
            refuse(&stream, status);
            return Ok(());
        }
        Err(Refused::Gone(error)) => return Err(error),
    };
    let is_head = request.method == "HEAD";
    if requests.send(request).is_err() {
        return Ok(());
    }
    let Ok(answer) = answers.recv() else {
        return Ok(());
    };
    send(&mut stream, answer, is_head)?;
    close(&mut stream)
}

fn send(stream: &mut TcpStream, answer: Answer, is_head: bool) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n",
        answer.status,
        answer.content.size()
    );
    for header in &answer.headers {
        head += header;
        head += "\r\n";
    }
    head += "\r\n";
    stream.write_all(head.as_bytes())?;
    match answer.content {
        _ if is_head => Ok(()),
        Content::Bytes(bytes) => stream.write_all(&bytes),
        // No more than was announced, should the file grow.
        Content::File(file, size) => io::copy(&mut file.take(size), stream).map(drop),
    }
}

/// Closes this end, and reads what still comes: a connection that is closed with bytes unread is reset, and its client may lose
/// the answer.
fn close(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let end = Instant::now() + FAREWELL;
    let mut rest = [0; 4096];
    while let Some(left) = left(end) {
        stream.set_read_timeout(Some(left))?;
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

fn refuse(mut stream: &TcpStream, status: &'static str) {
    let _ = stream.set_write_timeout(Some(FAREWELL));
    let text = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
}

/// Why there is no request.
enum Refused {
    With(&'static str),
    Gone(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// The time until then, unless it is over.
fn left(end: Instant) -> Option<Duration> {
    end.checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
}

/// Reads a request. Its head has a deadline as a whole: a byte now and then would keep a connection open for ever.
fn read(
    stream: &mut TcpStream,
    answers: SyncSender<Answer>,
    limits: Limits,
) -> Result<Request, Refused> {
    let end = Instant::now() + limits.patience;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = left(end).ok_or(Refused::With("408 Request Timeout"))?;
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        bytes.extend_from_slice(&piece[..count]);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) => {
                let header = |name: &str| {
                    let found = parsed
                        .headers
                        .iter()
                        .find(|header| header.name.eq_ignore_ascii_case(name))?;
                    Some(String::from_utf8_lossy(found.value).trim().to_owned())
                };
                if header("Transfer-Encoding").is_some() {
                    return Err(Refused::With("411 Length Required"));
                }
                let size = match header("Content-Length").map(|size| size.parse::<u64>()) {
                    None => 0,
                    Some(Ok(size)) if size <= limits.body => size,
                    Some(Ok(_)) => return Err(Refused::With("413 Content Too Large")),
                    Some(Err(_)) => return Err(Refused::With("400 Bad Request")),
                };
                let mut request = Request {
                    method: parsed.method.unwrap_or_default().to_owned(),
                    target: parsed.path.unwrap_or_default().to_owned(),
                    host: header("Host"),
                    body: bytes.split_off(length),
                    answers,
                };
                stream.set_read_timeout(Some(limits.patience))?;
                read_body(stream, &mut request.body, size)?;
                return Ok(request);
            }
            Ok(httparse::Status::Partial) if bytes.len() <= LARGEST_HEAD => {}
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Refused::With("431 Request Header Fields Too Large"));
            }
            Err(_) => return Err(Refused::With("400 Bad Request")),
        }
    }
}

/// Reads what of a body is not there yet; more than was announced is no part of it.
fn read_body(stream: &mut TcpStream, body: &mut Vec<u8>, size: u64) -> io::Result<()> {
    body.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    let missing = size - body.len() as u64;
    let read = stream.take(missing).read_to_end(body)?;
    if (read as u64) < missing {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        body: 10,
        patience: Duration::from_secs(10),
    };

    fn plain(text: &str) -> Answer {
        Answer {
            status: "200 OK",
            headers: vec!["Content-Type: text/plain".into()],
            content: Content::Bytes(text.into()),
        }
    }

    fn connected(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// What comes back for these bytes, until the server closes.
    fn answer_to(server: &Server, bytes: &[u8]) -> String {
        let mut stream = connected(server);
        // A server that has refused already may have closed.
        let _ = stream.write_all(bytes);
        if let Some(request) = server.next(Duration::from_millis(500)).unwrap() {
            let text = format!("{} {} {:?}", request.method, request.target, request.body);
            request.answer(plain(&text));
        }
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_request_is_answered_and_its_connection_closed_by_the_server() {
        let server = Server::open(0, LIMITS).unwrap();
        let text = answer_to(&server, b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\nConnection: close\r\n"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\nGET /a?b []"), "{text}");
        let text = answer_to(&server, b"HEAD / HTTP/1.1\r\n\r\n");
        assert!(
            text.contains("Content-Length: 9\r\n") && text.ends_with("\r\n\r\n"),
            "{text}"
        );
        let text = answer_to(&server, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabc");
        assert!(text.ends_with("POST / [97, 98]"), "{text}");
    }

    #[test]
    fn what_is_too_large_or_no_request_is_refused() {
        let server = Server::open(0, LIMITS).unwrap();
        let headers = |count: usize| {
            let lines: String = (0..count).map(|at| format!("x{at}: y\r\n")).collect();
            format!("GET / HTTP/1.1\r\n{lines}\r\n")
        };
        for (bytes, status) in [
            ("nonsense\r\n\r\n".to_owned(), "400"),
            (headers(65), "431"),
            (format!("GET /{} HTTP/1.1\r\n", "x".repeat(40_000)), "431"),
            (
                "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n".to_owned(),
                "413",
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(),
                "400",
            ),
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                "411",
            ),
        ] {
            let text = answer_to(&server, bytes.as_bytes());
            assert!(
                text.is_empty() || text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{status}: {text}"
            );
        }
    }

    #[test]
    fn a_client_that_does_not_read_or_write_keeps_nobody_waiting() {
        let server = Server::open(0, LIMITS).unwrap();
        let _silent: Vec<TcpStream> = (0..20).map(|_| connected(&server)).collect();
        // More than any buffer takes, to somebody who reads nothing of it.
        let mut deaf = connected(&server);
        deaf.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
        let request = server.next(Duration::from_secs(60)).unwrap().unwrap();
        request.answer(Answer {
            content: Content::Bytes(vec![b'x'; 64 << 20]),
            ..plain("")
        });
        let text = answer_to(&server, b"GET /small HTTP/1.1\r\n\r\n");
        assert!(text.ends_with("GET /small []"), "{text}");
    }

    #[test]
    fn more_connections_than_there_may_be_are_refused() {
        let server = Server::open(0, LIMITS).unwrap();
        let held: Vec<TcpStream> = (0..MOST_CONNECTIONS).map(|_| connected(&server)).collect();
        let text = answer_to(&server, b"GET / HTTP/1.1\r\n\r\n");
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 503 "),
            "{text}"
        );
        drop(held);
        let again = || answer_to(&server, b"GET / HTTP/1.1\r\n\r\n");
        let is_free = (0..100).any(|_| again().starts_with("HTTP/1.1 200 "));
        assert!(is_free);
    }

    #[test]
    fn a_port_is_free_again_once_its_server_is_dropped() {
        let server = Server::open(0, LIMITS).unwrap();
        let port = server.port();
        drop(server);
        let is_free = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Server::open(port, LIMITS).is_ok()
        });
        assert!(is_free);
    }
}
