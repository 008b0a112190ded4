"""A preprocessor of mdBook: a link to a file outside of the book becomes its text and the file's name.

Usage: mdBook calls it (docs/book.toml), with `[context, book]` as JSON on stdin, and reads the book from stdout.
"""

import json
import posixpath
import re
import sys
from typing import Any

UPWARDS = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")


def rewrite(markdown: str, chapter: str) -> str:
    """The page at the path `chapter` without links out of the book. A path that is its own text stands once."""

    def plain(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(chapter), target))
        if not path.startswith("../"):
            return link.group(0)
        path = path.removeprefix("../")
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return UPWARDS.sub(plain, markdown)


def walk(items: list[Any]) -> None:
    """Rewrites the chapters among `items` and below them in place."""
    for item in items:
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            chapter["content"] = rewrite(chapter["content"], chapter["path"] or "")
            walk(chapter["sub_items"])


def main() -> int:
    if sys.argv[1:2] == ["supports"]:
        return 0
    _, book = json.load(sys.stdin)
    walk(book["items"] if "items" in book else book["sections"])
    json.dump(book, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
