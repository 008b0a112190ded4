//! The HTTP side: one page, its script, its parameters and its files go out; progress, outputs and the answer come in.
//!
//! Every path begins with a token, so that no other program of this machine gets or gives anything by guessing the port.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rand::Rng;
use serde_json::{Value, json};

use crate::base::loopback::{self, Answer, Content, Limits, Request};

const PAGE: &str = include_str!("page.html");
/// The place of the import map in the page.
const IMPORTS: &str = "IMPORTS";
/// The name, below a page's address, of the page that keeps what it compiles.
pub(super) const KEEPER: &str = "keeper";
const ISOLATING: [&str; 2] = [
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Embedder-Policy: require-corp",
];
/// A page posts the outputs of a model, and may compile for a while before it reads on.
const LIMITS: Limits = Limits {
    body: 4 << 30,
    patience: Duration::from_secs(120),
};

/// What the browser is to open.
#[derive(Debug)]
pub struct Page<'a> {
    /// A JavaScript module; it finds `params.json` and `files/<name>` beside itself and posts to `progress`, `outputs`,
    /// `answer`. What it does not catch goes to `onTrouble`, which posts it unless the module puts its own in the place.
    pub script: &'a str,
    pub params: &'a Value,
    /// The files by the names under which the script requests them.
    pub files: BTreeMap<String, Served>,
    /// Modules that scripts import by a bare name: the files that are meant.
    pub imports: &'a [(&'a str, &'a str)],
}

#[derive(Debug, Clone)]
pub enum Served {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// What came from the browser.
pub(super) enum Received {
    /// A request for the page: the browser is up.
    Page,
    Progress(String),
    Outputs(Vec<u8>),
    Answer(Value),
    /// An error that nothing in the page caught, for the log; the page's trouble or its answer follows.
    Uncaught(String),
    /// It failed in a way that its script did not foresee, in the browser's words.
    Trouble(String),
    Nothing,
}

/// The port of a browser's pages.
pub(super) struct Port {
    server: loopback::Server,
    /// Whether pages are isolated from all other origins, as threads and exact clocks want it. A browser gives each origin
    /// of such pages a process of its own.
    isolates: bool,
}

impl Port {
    pub(super) fn open(isolates: bool) -> io::Result<Self> {
        Ok(Self {
            server: loopback::Server::open(0, LIMITS)?,
            isolates,
        })
    }

    pub(super) fn number(&self) -> u16 {
        self.server.port()
    }
}

/// A page at a port. Who asks for another page's token is refused, so what comes in is of this page.
pub(super) struct Server<'p> {
    port: &'p Port,
    token: String,
    page: &'p Page<'p>,
}

impl<'p> Server<'p> {
    pub(super) fn of(port: &'p Port, page: &'p Page<'p>) -> Self {
        Self {
            port,
            token: format!("{:032x}", rand::rng().random::<u128>()),
            page,
        }
    }

    /// The address of the page at a name of this machine: 127.0.0.1, or what ends in `.localhost`. Both are secure
    /// contexts, without which there is neither WebGPU nor WebNN.
    pub(super) fn address(&self, host: &str) -> String {
        format!("http://{host}:{}/{}/", self.port.number(), self.token)
    }

    /// Answers the next request, if one comes in time.
    pub(super) fn next(&self, patience: Duration) -> io::Result<Option<Received>> {
        let Some(mut request) = self.port.server.next(patience)? else {
            return Ok(None);
        };
        let path = request
            .target
            .strip_prefix('/')
            .and_then(|url| url.strip_prefix(self.token.as_str()));
        let Some(path) = path
            .and_then(|path| path.strip_prefix('/'))
            .map(str::to_owned)
        else {
            return self.refuse(request);
        };
        if request.method != "POST" {
            return self.get(request, &path);
        }
        let body = std::mem::take(&mut request.body);
        let received = match path.as_str() {
            "progress" => Received::Progress(String::from_utf8_lossy(&body).into_owned()),
            "uncaught" => Received::Uncaught(String::from_utf8_lossy(&body).into_owned()),
            "trouble" => Received::Trouble(String::from_utf8_lossy(&body).into_owned()),
            "outputs" => Received::Outputs(body),
            "answer" => Received::Answer(serde_json::from_slice(&body).map_err(io::Error::other)?),
            _ => return self.refuse(request),
        };
        self.send(
            request,
            "204 No Content",
            "text/plain",
            Content::Bytes(vec![]),
        );
        Ok(Some(received))
    }

    fn html(&self) -> String {
        let files = self
            .page
            .imports
            .iter()
            .map(|(name, file)| (*name, format!("./files/{file}")));
        PAGE.replace(
            IMPORTS,
            &json!({"imports": files.collect::<BTreeMap<_, _>>()}).to_string(),
        )
    }

    /// A page that compiles the page's WebAssembly and holds it, as long as it is open.
    fn keeper(&self) -> String {
        let files: Vec<_> = self
            .page
            .files
            .keys()
            .filter(|name| name.ends_with(".wasm"))
            .collect();
        let compiled = "Promise.all(files.map((name) => WebAssembly.compileStreaming(fetch(`files/${name}`))))";
        format!(
            "<!doctype html><script>const files = {}; globalThis.kept = {compiled};</script>",
            json!(files)
        )
    }

    fn get(&self, request: Request, path: &str) -> io::Result<Option<Received>> {
        let bytes = |request, bytes: &[u8], kind| {
            self.send(request, "200 OK", kind, Content::Bytes(bytes.to_vec()))
        };
        match path {
            "" => {
                bytes(request, self.html().as_bytes(), "text/html; charset=utf-8");
                return Ok(Some(Received::Page));
            }
            KEEPER => bytes(
                request,
                self.keeper().as_bytes(),
                "text/html; charset=utf-8",
            ),
            "page.mjs" => bytes(request, self.page.script.as_bytes(), of_type(path)),
            "params.json" => bytes(
                request,
                self.page.params.to_string().as_bytes(),
                of_type(path),
            ),
            _ => match path
                .strip_prefix("files/")
                .and_then(|name| self.page.files.get(name))
            {
                Some(Served::Bytes(content)) => bytes(request, content, of_type(path)),
                Some(Served::File(file)) => {
                    let failed =
                        |e: io::Error| io::Error::other(format!("`{}`: {e}", file.display()));
                    let content = File::open(file).map_err(failed)?;
                    let size = content.metadata().map_err(failed)?.len();
                    self.send(
                        request,
                        "200 OK",
                        of_type(path),
                        Content::File(content, size),
                    );
                }
                None => return self.refuse(request),
            },
        }
        Ok(Some(Received::Nothing))
    }

    fn refuse(&self, request: Request) -> io::Result<Option<Received>> {
        self.send(
            request,
            "404 Not Found",
            "text/plain",
            Content::Bytes(vec![]),
        );
        Ok(Some(Received::Nothing))
    }

    fn send(&self, request: Request, status: &'static str, kind: &str, content: Content) {
        let mut headers = vec![
            format!("Content-Type: {kind}"),
            "Cache-Control: no-store".to_owned(),
            "Cross-Origin-Resource-Policy: same-origin".to_owned(),
        ];
        if self.port.isolates {
            headers.extend(ISOLATING.map(str::to_owned));
        }
        request.answer(Answer {
            status,
            headers,
            content,
        });
    }
}

fn of_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("mjs" | "js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn answer(server: &Server<'_>, request: &str) -> (String, Option<Received>) {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port.number())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let received = server.next(Duration::from_secs(10)).unwrap();
        // A browser hangs up when it gets the notice that the connection ends; so does this.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        (text, received)
    }

    #[test]
    fn only_who_knows_the_token_is_answered_and_every_connection_ends() {
        let params = json!({"a": 1});
        let files = BTreeMap::from([("ort/x.wasm".to_owned(), Served::Bytes(b"wasm".to_vec()))]);
        let imports = [("ort", "ort/x.mjs")];
        let page = Page {
            script: "export {}",
            params: &params,
            files,
            imports: &imports,
        };
        let port = Port::open(true).unwrap();
        let server = Server::of(&port, &page);
        let token = server.token.clone();
        let get = |path: &str| answer(&server, &format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(get("params.json").0.starts_with("HTTP/1.1 404"));
        assert!(
            get(&format!("{token}x/params.json"))
                .0
                .starts_with("HTTP/1.1 404")
        );
        let (text, _) = get(&format!("{token}/params.json"));
        assert!(
            text.contains("Connection: close\r\n") && text.ends_with("\r\n\r\n{\"a\":1}"),
            "{text}"
        );
        assert!(
            get(&format!("{token}/files/ort/x.wasm"))
                .0
                .contains("application/wasm")
        );
        assert!(
            get(&format!("{token}/files/../secret"))
                .0
                .starts_with("HTTP/1.1 404")
        );
        let (html, received) = get(&format!("{token}/"));
        assert!(matches!(received, Some(Received::Page)));
        assert!(
            html.contains(
                r#"<script type="importmap">{"imports":{"ort":"./files/ort/x.mjs"}}</script>"#
            ),
            "{html}"
        );
        let post =
            format!("POST /{token}/trouble HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nwhy");
        assert!(matches!(answer(&server, &post).1, Some(Received::Trouble(text)) if text == "why"));
        let post =
            format!("POST /{token}/outputs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
        assert!(
            matches!(answer(&server, &post).1, Some(Received::Outputs(bytes)) if bytes == b"abc")
        );
    }
}
