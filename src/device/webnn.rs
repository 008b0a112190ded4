//! WebNN: neural networks as a browser offers them. Evidence is a context that a page got *and* one operator that ran;
//! `navigator.ml` alone is none. This version opens no page, so it never reports the backend as available.

use super::host::Host;
use super::{Look, Prober, web};

pub struct WebNn;

impl Prober for WebNn {
    fn name(&self) -> &'static str {
        "webnn"
    }

    fn look(&self, host: &Host, thorough: bool) -> Look {
        let mut look = web::look(host, thorough, "webnn", "a context", |browser| browser != "Firefox");
        if look.backend.facts.contains_key("found") {
            let distribution = host.text("/etc/os-release").unwrap_or_default();
            if distribution.lines().any(|line| line == "ID=debian") && host.exists("/usr/lib/chromium/chromium") {
                look.backend.fact(
                    "note",
                    "Debian builds Chromium without TFLite: navigator.ml exists there and every createContext fails",
                );
            }
        }
        look
    }
}
