"""What is said of a Hub that gives nothing. Skipped where transformers is not installed."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from types import SimpleNamespace

from tests.support import PACKAGE

MODULES = ("transformers", "huggingface_hub")
# By repository: status, and the header in which the Hub says what it is about.
ANSWERS = {
    "gated": (403, "GatedRepo"),
    "absent": (401, "RepoNotFound"),
    "revision": (404, "RevisionNotFound"),
    "token": (401, ""),
}
# Where nothing listens.
NOWHERE = "http://127.0.0.1:9"
SCRIPT = """
import json, sys
from transformers import AutoConfig
from orch_py.worker import hub_errors
said = {}
if "--look" in sys.argv:
    hub_errors.leave_alone_if_unreachable()
for name in [name for name in sys.argv[1:] if name != "--look"]:
    try:
        AutoConfig.from_pretrained(f"me/{name}", revision="a" * 40)
    except OSError as error:
        refused = hub_errors.refusal(error, f"me/{name}", "is not had", "a" * 40)
        said[name] = f"{refused.status}: {refused}"
print(json.dumps(said))
"""


class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, code = next((answer for name, answer in ANSWERS.items() if f"/{name}" in self.path), (404, ""))
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "transformers is not installed")
class HubErrors(unittest.TestCase):
    def said(self, names: list[str], **more: str) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as home:
            kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, *names],
                cwd=PACKAGE,
                env=kept | {"HF_HOME": home, "HOME": home} | more,
                capture_output=True,
                check=True,
                text=True,
            )
        said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        return said

    def test_each_answer_of_the_hub_has_its_own_words(self) -> None:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hub = f"http://127.0.0.1:{server.server_port}"
        said = self.said(list(ANSWERS), HF_ENDPOINT=hub)
        self.assertIn(f"it is gated: ask for access at {hub}/me/gated, and log in", said["gated"])
        self.assertIn(f"the Hub at {hub} has no such repository, or it is private", said["absent"])
        self.assertEqual(said["revision"], f"error: `me/revision` is not had: it has no revision `{'a' * 40}`")
        self.assertIn("refuses the token that is used (401)", said["token"])
        self.assertTrue(all(why.startswith("error: ") for why in said.values()), "nobody lacks what was refused")
        gated = self.said(["gated"], HF_ENDPOINT=hub, HF_TOKEN="hf_x")["gated"]
        self.assertIn("it is gated, and the token that is used has no access", gated)

    def test_without_a_network_the_cache_is_named(self) -> None:
        said = self.said(["any"], HF_HUB_OFFLINE="1")["any"]
        self.assertEqual(
            said, "unavailable: `me/any` is not had: it is not in the Hub's cache (HF_HOME), and HF_HUB_OFFLINE is set"
        )

    def test_a_hub_that_is_down_is_left_alone(self) -> None:
        began = time.monotonic()
        said = self.said(["--look", "one", "two", "three"], HF_ENDPOINT=NOWHERE)
        self.assertLess(time.monotonic() - began, 60, "each file alone would be tried for half a minute")
        for why in said.values():
            self.assertRegex(
                why, f"^unavailable: .* the Hub at {NOWHERE} cannot be reached .*HTTPS_PROXY names a proxy"
            )

    def test_a_status_is_named_and_another_error_is_its_own(self) -> None:
        from orch_py.worker import hub_errors

        for status, words in ((429, "takes no more requests for now (429)"), (503, "is out of order (503)")):
            error = OSError("it failed")
            error.__cause__ = ValueError("a status")
            error.__cause__.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
            self.assertIn(words, str(hub_errors.refusal(error, "me/any", "is not had")))
        own = hub_errors.refusal(OSError("no space\nleft"), "me/any", "is not had")
        self.assertEqual((own.status, str(own)), ("unavailable", "`me/any` is not had: OSError: no space"))
