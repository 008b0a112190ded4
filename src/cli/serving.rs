//! Answers a browser of this machine: pages of [`Live`], read-only, to nobody else.

use std::io;
use std::time::Duration;

use crate::base::loopback::{self, Content, Limits, Request, Server};
use crate::session::{Live, Shown};
use crate::worker::Cancel;

/// So often an interrupt is looked for.
const TICK: Duration = Duration::from_millis(200);

/// Pages are read, and nothing is sent to them.
const LIMITS: Limits = Limits {
    body: 0,
    patience: Duration::from_secs(10),
};

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
    /// Opens a port of the loopback; 0 stands for any that is free.
    pub(super) fn open(port: u16) -> io::Result<Self> {
        Server::open(port, LIMITS).map(Self)
    }

    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.0.port())
    }

    /// Serves until it is cancelled.
    pub(super) fn serve(&self, live: &mut Live, cancel: &Cancel) -> io::Result<()> {
        while !cancel.is_cancelled() {
            if let Some(request) = self.0.next(TICK)? {
                let answer = answer(&request, live);
                request.answer(answer.into());
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
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return text("405 Method Not Allowed", "these pages are read-only\n");
    }
    // Another site's name may lead here: its scripts would read the pages.
    let host = request.host.as_deref();
    let name = host
        .and_then(|host| host.rsplit_once(':'))
        .map_or(host, |(name, _)| Some(name));
    if !matches!(name, Some("127.0.0.1" | "localhost")) {
        return text("403 Forbidden", "ask 127.0.0.1 or localhost\n");
    }
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
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
                Some("json") => ok("application/json", text.clone()),
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

impl From<Answer> for loopback::Answer {
    fn from(Answer { status, kind, body }: Answer) -> Self {
        Self {
            status,
            headers: vec![
                format!("Content-Type: {kind}"),
                "Cache-Control: no-store".into(),
                format!("Content-Security-Policy: {POLICY}"),
                "X-Content-Type-Options: nosniff".into(),
                "Referrer-Policy: no-referrer".into(),
                "Cross-Origin-Resource-Policy: same-origin".into(),
            ],
            content: Content::Bytes(body.into()),
        }
    }
}
