//! Answers a browser of this machine: pages of [`Live`], read-only, to nobody else.

use std::io::{self, Write as _};
use std::time::Duration;

use tiny_http::{Method, Request, Server};

use crate::session::{Live, Shown};
use crate::worker::Cancel;

/// So often an interrupt is looked for.
const TICK: Duration = Duration::from_millis(200);

/// Scripts and styles of the pages' own; nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Loads the page again when there is another one. What its reader chose stands in its address. The page says which one it is: another
/// may have been made before it asks for the first time.
const FOLLOW: &str = "<script>
{ const own = 'VERSION';
  const look = async () => {
    const now = await fetch('/version').then((answer) => answer.text(), () => own);
    if (now !== own) location.reload();
  };
  setInterval(look, 1000); look(); }
</script>
</body>";

pub(super) struct Port(Server);

struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Port {
    /// On the loopback. 0: any port that is free.
    pub(super) fn open(port: u16) -> io::Result<Self> {
        Ok(Self(
            Server::http(("127.0.0.1", port)).map_err(io::Error::other)?,
        ))
    }

    pub(super) fn address(&self) -> String {
        let port = self
            .0
            .server_addr()
            .to_ip()
            .map_or(0, |address| address.port());
        format!("http://127.0.0.1:{port}/")
    }

    /// Until it is cancelled.
    pub(super) fn serve(&self, live: &mut Live, cancel: &Cancel) -> io::Result<()> {
        while !cancel.is_cancelled() {
            if let Some(request) = self.0.recv_timeout(TICK)? {
                let answer = answer(&request, live);
                send(request, &answer);
            }
        }
        Ok(())
    }
}

fn answer(request: &Request, live: &mut Live) -> Answer {
    let text = |status, body: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: body.to_owned(),
    };
    if !matches!(request.method(), Method::Get | Method::Head) {
        return text("405 Method Not Allowed", "these pages are read-only\n");
    }
    // Another site's name may lead here: its scripts would read the pages.
    let host = request
        .headers()
        .iter()
        .find(|header| header.field.equiv("Host"))
        .map(|header| header.value.as_str());
    let name = host
        .and_then(|host| host.rsplit_once(':'))
        .map_or(host, |(name, _)| Some(name));
    if !matches!(name, Some("127.0.0.1" | "localhost")) {
        return text("403 Forbidden", "ask 127.0.0.1 or localhost\n");
    }
    let path = request.url().split(['?', '#']).next().unwrap_or_default();
    let shown = live.shown();
    page(path, &shown).unwrap_or_else(|| text("404 Not Found", "there is no such page\n"))
}

fn page(path: &str, shown: &Shown) -> Option<Answer> {
    let ok = |kind, body: String| {
        Some(Answer {
            status: "200 OK",
            kind,
            body,
        })
    };
    let html = "text/html; charset=utf-8";
    if path == "/version" {
        return ok("text/plain; charset=utf-8", shown.version.to_string());
    }
    let pages = match &shown.what {
        Ok(pages) => pages,
        Err(error) => {
            let error = error.replace('&', "&amp;").replace('<', "&lt;");
            let page = format!("<!doctype html><title>orch</title><body><pre>{error}</pre></body>");
            return ok(html, followed(&page, shown.version));
        }
    };
    match path {
        "/" => ok(html, followed(&pages.report, shown.version)),
        "/matrix.json" => ok("application/json", pages.json()),
        _ => {
            let name = path.strip_prefix("/site/")?;
            let name = if name.is_empty() { "index.html" } else { name };
            let text = pages
                .site()
                .map(|files| files.get(name))
                .unwrap_or_default()?;
            match name.rsplit('.').next() {
                Some("html") => ok(html, followed(text, shown.version)),
                Some("css") => ok("text/css; charset=utf-8", text.clone()),
                Some("js") => ok("text/javascript; charset=utf-8", text.clone()),
                Some("svg") => ok("image/svg+xml", text.clone()),
                _ => ok("text/plain; charset=utf-8", text.clone()),
            }
        }
    }
}

fn followed(page: &str, version: u64) -> String {
    match page.rfind("</body>") {
        Some(at) => [
            &page[..at],
            &FOLLOW.replace("VERSION", &version.to_string()),
            &page[at + "</body>".len()..],
        ]
        .concat(),
        None => page.to_owned(),
    }
}

/// By hand, because every connection is closed after its answer: tiny_http's pool may queue one behind another that is merely
/// kept open.
fn send(request: Request, answer: &Answer) {
    let Answer { status, kind, body } = answer;
    let is_head = *request.method() == Method::Head;
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n",
        body.len()
    );
    let mut writer = request.into_writer();
    let body = if is_head { "" } else { body };
    // A browser that went away is no error.
    let _ = writer
        .write_all(head.as_bytes())
        .and_then(|()| writer.write_all(body.as_bytes()))
        .and_then(|()| writer.flush());
}
