//! The HTTP side: one page, its script, its parameters and its files go out; progress, outputs and the answer come in.
//!
//! Every path begins with a token, so that no other program of this machine gets or gives anything by guessing the port.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use rand::Rng;
use serde_json::Value;
use tiny_http::{Header, Method, Request, Response};

const PAGE: &str = include_str!("page.html");

/// What the browser is to open.
#[derive(Debug)]
pub struct Page<'a> {
    /// A JavaScript module; it finds `params.json` and `files/<name>` beside itself and posts to `progress`, `outputs`,
    /// `answer`.
    pub script: &'a str,
    pub params: &'a Value,
    /// By the names under which the script asks for them.
    pub files: BTreeMap<String, Served>,
}

#[derive(Debug, Clone)]
pub enum Served {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// What came from the browser.
pub(super) enum Said {
    /// It asked for the page: it is up.
    Page,
    Progress(String),
    Outputs(Vec<u8>),
    Answer(Value),
    Nothing,
}

pub(super) struct Server<'p> {
    server: tiny_http::Server,
    token: String,
    page: &'p Page<'p>,
}

impl<'p> Server<'p> {
    pub(super) fn open(page: &'p Page<'p>) -> io::Result<Self> {
        let server = tiny_http::Server::http("127.0.0.1:0").map_err(io::Error::other)?;
        let token = format!("{:032x}", rand::rng().random::<u128>());
        Ok(Self { server, token, page })
    }

    /// Where the page is. 127.0.0.1 is a secure context, without which there is neither WebGPU nor WebNN.
    pub(super) fn address(&self) -> String {
        let port = self.server.server_addr().to_ip().map_or(0, |address| address.port());
        format!("http://127.0.0.1:{port}/{}/", self.token)
    }

    /// Answers the next request, if one comes in time.
    pub(super) fn next(&self, patience: Duration) -> io::Result<Option<Said>> {
        let Some(mut request) = self.server.recv_timeout(patience)? else { return Ok(None) };
        let path = request.url().strip_prefix('/').and_then(|url| url.strip_prefix(self.token.as_str()));
        let Some(path) = path.and_then(|path| path.strip_prefix('/')).map(str::to_owned) else {
            return refuse(request);
        };
        if *request.method() != Method::Post {
            return self.get(request, &path);
        }
        let mut body = Vec::new();
        request.as_reader().read_to_end(&mut body)?;
        let said = match path.as_str() {
            "progress" => Said::Progress(String::from_utf8_lossy(&body).into_owned()),
            "outputs" => Said::Outputs(body),
            "answer" => Said::Answer(serde_json::from_slice(&body).map_err(io::Error::other)?),
            _ => return refuse(request),
        };
        send(request, Response::empty(204));
        Ok(Some(said))
    }

    fn get(&self, request: Request, path: &str) -> io::Result<Option<Said>> {
        let text = |text: &str| Response::from_data(text.as_bytes().to_vec());
        match path {
            "" => {
                send(request, text(PAGE).with_header(header("Content-Type", "text/html; charset=utf-8")));
                return Ok(Some(Said::Page));
            }
            "page.mjs" => send(request, text(self.page.script).with_header(of_type("page.mjs"))),
            "params.json" => send(request, text(&self.page.params.to_string()).with_header(of_type(path))),
            _ => match path.strip_prefix("files/").and_then(|name| Some((name, self.page.files.get(name)?))) {
                Some((name, Served::File(file))) => {
                    let file = File::open(file).map_err(|e| io::Error::other(format!("`{}`: {e}", file.display())))?;
                    send(request, Response::from_file(file).with_header(of_type(name)));
                }
                Some((name, Served::Bytes(bytes))) => {
                    send(request, Response::from_data(bytes.clone()).with_header(of_type(name)));
                }
                None => return refuse(request),
            },
        }
        Ok(Some(Said::Nothing))
    }
}

fn refuse(request: Request) -> io::Result<Option<Said>> {
    send(request, Response::empty(404));
    Ok(Some(Said::Nothing))
}

/// A browser that went away shows elsewhere, so a failed answer is not an error here.
fn send<R: Read>(request: Request, mut response: Response<R>) {
    // Isolated from other origins a page gets the clock in steps of 5 µs instead of 100.
    for (name, value) in [
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Embedder-Policy", "require-corp"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ] {
        response.add_header(header(name, value));
    }
    let _ = request.respond(response);
}

fn of_type(name: &str) -> Header {
    let kind = match name.rsplit('.').next() {
        Some("mjs" | "js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    };
    header("Content-Type", kind)
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("BUG: a header of plain letters")
}
