#!/usr/bin/env python3
"""How large and how fast the pages of many cases are: one report of 3,500 cells, and a site of 20,000.

    cargo build --release
    python3 benches/pages.py                                # --orch target/debug/orch for another one
    python3 benches/pages.py --pictures target/pages        # keeps the pages, and pictures at 1400 and 400 pixels

The models are those of the tests' report, as often as it takes, each copy under a name of its own. A page is
loaded by a headless chromium from a server of this script on the loopback. What is told is the median of `--runs`,
each a browser of its own: milliseconds from the start of the navigation until the page has been drawn after its
scripts ran.
"""

from __future__ import annotations

import argparse
import copy
import functools
import http.server
import json
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.table import machine

ROOT = Path(__file__).resolve().parents[1]
FIXTURE = ROOT / "tests/fixtures/report/doc.json"

# Tells the server when the second frame after loading begins: then the first one is drawn.
TELL = """<script>addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() =>
  fetch(`/drawn?ms=${performance.now()}`))));</script></body>"""


def report(cells: int) -> dict[str, Any]:
    """The tests' report with so many cells: its models again and again."""
    document: dict[str, Any] = json.loads(FIXTURE.read_text("utf-8"))
    seed, document["cases"], document["excluded"] = document["cases"], [], []
    number = 0
    while len(document["cases"]) < cells:
        for case in seed[: cells - len(document["cases"])]:
            one = copy.deepcopy(case)
            one["model"] = f"{case['model']}-{number}"
            one["case"] = one["model"] + case["case"].removeprefix(case["model"])
            document["cases"].append(one)
        number += 1
    count = {
        "passed": "PASS",
        "unavailable": "SKIP_UNAVAILABLE",
        "unsupported": "SKIP_UNSUPPORTED",
        "incomplete": "INCOMPLETE",
    }
    states = [case["status"] for case in document["cases"]]
    summary = {name: states.count(state) for name, state in count.items()}
    failed = len(states) - sum(summary.values())
    document["summary"] |= {**summary, "cases": len(states), "failed": failed, "excluded": 0}
    return document


class Pages(http.server.SimpleHTTPRequestHandler):
    """Files of a folder; those that end in `.html` tell when they are drawn."""

    drawn: queue.Queue[float]

    def __init__(self, *args: Any, drawn: queue.Queue[float], **kwargs: Any) -> None:
        self.drawn = drawn
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/drawn":
            self.drawn.put(float(parse_qs(asked.query)["ms"][0]))
            self.send_response(204)
            self.end_headers()
        elif asked.path.endswith(".html"):
            text = Path(self.translate_path(asked.path)).read_text("utf-8").replace("</body>", TELL).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, queue.Queue[float]]]:
    drawn: queue.Queue[float] = queue.Queue()
    handler = functools.partial(Pages, drawn=drawn, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", drawn
        server.shutdown()
        thread.join()


def browser(args: argparse.Namespace, profile: str, *flags: str) -> list[str]:
    return [args.chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *flags]


def load(args: argparse.Namespace, url: str, drawn: queue.Queue[float]) -> float:
    """Milliseconds until it is drawn, in a browser of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        started = subprocess.Popen(
            browser(args, profile, "--remote-debugging-port=0", "--window-size=1400,900", url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return drawn.get(timeout=120)
        finally:
            started.terminate()
            started.wait()


def picture(args: argparse.Namespace, url: str, width: int, to: Path) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [f"--window-size={width},1400", f"--screenshot={to}", "--hide-scrollbars", url]
        subprocess.run(browser(args, profile, *flags), check=True, capture_output=True, timeout=120)


def made(args: argparse.Namespace, *command: str) -> float:
    """Seconds that orch takes."""
    began = time.monotonic()
    ended = subprocess.run([args.orch, *command], capture_output=True, text=True, cwd=args.dir)
    if ended.returncode not in (0, 3):
        sys.exit(f"orch {' '.join(command)}: {ended.stderr}")
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orch", type=Path, default=ROOT / "target/release/orch")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome") or "chromium")
    parser.add_argument("--page", type=int, default=3500, help="cells of the report")
    parser.add_argument("--site", type=int, default=20_000, help="cells of the site")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pictures", type=Path, help="keeps pages and pictures in this folder")
    args = parser.parse_args()
    args.orch = args.orch.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        args.dir = args.pictures.resolve() if args.pictures else Path(scratch)
        args.dir.mkdir(parents=True, exist_ok=True)
        for name, cells in (("page.json", args.page), ("site.json", args.site)):
            (args.dir / name).write_text(json.dumps(report(cells)), "utf-8")
        page = made(args, "report", "--merge", "page.json", "--format", "html", "--output", "page.html", "--allow-none")
        site = made(args, "site", "site", "--report", "site.json")
        files = [path for path in (args.dir / "site").rglob("*") if path.is_file()]
        pair = next((args.dir / "site/pairs").rglob("*.html")).relative_to(args.dir)
        model = next((args.dir / "site/models").glob("*.html")).relative_to(args.dir)
        host = machine()
        print(f"{host['cpu']}, {host['cores']} cores")
        print(f"{args.page} cells made in {page:.1f} s, a site of {args.site} in {site:.1f} s\n")
        print(f"The site: {len(files):,} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB\n")
        print("| page | MB | drawn after |\n|---|--:|--:|")
        with served(args.dir) as (address, drawn):
            for path in (Path("page.html"), Path("site/index.html"), model, pair):
                times = [load(args, f"{address}/{path}", drawn) for _ in range(args.runs)]
                size = (args.dir / path).stat().st_size / 1e6
                shown = path if path.parts[-2:-1] in ((), ("site",)) else f"one of {path.parent.parts[1]}/"
                print(f"| {shown} | {size:.2f} | {statistics.median(times):.0f} ms |", flush=True)
                for width in (1400, 400) if args.pictures else ():
                    picture(args, f"{address}/{path}", width, args.dir / f"{path.stem[:20]}-{width}.png")


if __name__ == "__main__":
    main()
