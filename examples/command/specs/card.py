"""A model card from a checksum and an artefact's manifest: an example of a tool that knows nothing of orch."""

import json
import sys
from pathlib import Path


def main(checksum: Path, manifest: Path, out: Path) -> None:
    digest, _ = checksum.read_text(encoding="utf-8").split()
    told = json.loads(manifest.read_text(encoding="utf-8"))
    card = {"sha256": digest, "format": told["format"], "inputs": told["inputs"], "outputs": told["outputs"]}
    out.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {out}: {digest[:12]}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
