"""What OpenVINO's errors say of a model, without where in its sources they say it.

Its frontends answer with a block of lines, of which one or two are the reason: `No conversion rule found for
operations: Det-17`, or what one operator's converter complains of. The Rust runtime reads the same words
(`openvino/words.rs`).
"""

from __future__ import annotations

import re

# Lines that say where, or that something failed, and not what.
_EMPTY = re.compile(
    r"""^(
        Exception\ from\ \S+
      | Check\ .*\ failed\ at\ \S+
      | While\ validating\ .*
      | FrontEnd\ API\ failed\ with\ \w+
      | Model\ wasn't\ fully\ converted\..*
      | \[ONNX\ Frontend\]\ Conversion\ failed\ for\ .*
      | Shape\ inference\ input\ shapes\ .*
      | Loading\ input\ model
      | Summary
    ):?$""",
    re.VERBOSE,
)
# `While validating ONNX node '<Node(Split): name>': Check 'false' failed at …:12:` is one line.
_PLACE = re.compile(r"^While validating .*?: (?=Check )")
_OPERATOR = re.compile(r"^-- (\S+) with a message:$")
_FAILED = re.compile(r"^-- Conversion is failed for: ")


def telling(text: str) -> str:
    """The reasons in one line; the whole text in one line where none is found."""
    found: list[str] = []
    operator = ""
    for line in map(str.strip, text.splitlines()):
        if match := _OPERATOR.match(line):
            operator = f"{match[1]}: "
        elif line.startswith("-- ") and not _FAILED.match(line):
            found.append(line[3:])
        elif line and not line.startswith("-- ") and not _EMPTY.match(_PLACE.sub("", line)):
            found.append(operator + line)
            operator = ""
    return "; ".join(dict.fromkeys(found)) or " ".join(text.split())
