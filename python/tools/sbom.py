"""Writes the packages that orch's locks of Python and of npm install, with their licences, as a CycloneDX 1.6 document.

    just sbom        # writes python/sbom.cdx.json again after a lock has changed; needs the package index

Licences are what each package's own metadata says, as SPDX expressions; npm's locks hold it. What is only needed
to bundle a script (`dev`) is not listed. One that `ALLOWED` does not hold, and a package that names none, is an
error: a person must look at it first.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).resolve().parents[1]
LOCKS = PYTHON / "requirements"
NPM_LOCKS = PYTHON.parent / "node"
DOCUMENT = PYTHON / "sbom.cdx.json"
PIP = "pip==26.1"

# The first rows let anybody do anything. The next asks that changes to the package itself are given away; orch changes
# none. The last is the vendor's own: orch installs the vendor's wheel on the user's machine and hands on none.
ALLOWED = {
    *(
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "Unlicense",
    ),
    *("Apache-2.0 WITH LLVM-exception", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib"),
    *("MPL-2.0",),
    *("LicenseRef-NVIDIA-Proprietary",),
}

# What older metadata calls a licence, without "License" and in lower case.
NAMES = {
    "3-clause bsd": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "isc": "ISC",
    "isc (iscl)": "ISC",
    "mit": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "nvidia proprietary software": "LicenseRef-NVIDIA-Proprietary",
    "python software foundation": "PSF-2.0",
}

# Packages whose metadata names none.
SILENT = {
    # NVIDIA's list of its other packages; it holds no file of its own.
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",
    # By the text of its file LICENSE.
    "torchao": "BSD-3-Clause",
}

Package = tuple[str, str]


def locked(lock: Path) -> dict[Package, bool]:
    """Names, as an index writes them, and versions that a lock holds; and whether every system and Python gets it."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)( *;)?", lock.read_text("utf-8"), re.MULTILINE)
    return {(normal(name), version): not marker for name, version, marker in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(metadata: dict[str, Any]) -> str | None:
    """An SPDX expression from the metadata of one package, or nothing where it names no licence that is known."""
    if expression := metadata.get("license_expression"):
        return str(expression)
    given = [metadata.get("license") or ""]
    given += [row.split(" :: ")[-1] for row in metadata.get("classifier", []) if row.startswith("License ::")]
    for text in given:
        first = re.sub(r"\s+license$", "", text.split("\n")[0].strip(), flags=re.IGNORECASE)
        if first in ALLOWED or parts(first) <= ALLOWED:
            return first
        if known := NAMES.get(first.lower()):
            return known
    return SILENT.get(normal(metadata["name"]))


def parts(expression: str) -> set[str]:
    """The licences of an SPDX expression; of `OR` any would do, and all are asked for."""
    return {part.strip() for part in re.split(r"\s+(?:AND|OR)\s+", expression.replace("(", "").replace(")", ""))}


def asked(lock: Path) -> list[dict[str, Any]]:
    """The metadata of every package of a lock for this system. Nothing is installed."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        argv = ["uv", "tool", "run", "--quiet", "--from", PIP, "pip", "install", "--quiet", "--dry-run"]
        argv += ["--ignore-installed", "--no-deps", "--report", report.name, "--requirement", str(lock)]
        subprocess.run(argv, check=True)
        return [item["metadata"] for item in json.load(report)["install"]]


def of_npm(lock: Path) -> dict[Package, str | None]:
    """Names and versions that a lock of npm's holds, with their licences, for every system."""
    packages = json.loads(lock.read_text("utf-8"))["packages"].items()
    kept = [(path, package) for path, package in packages if path and not package.get("dev")]
    return {(path.rpartition("node_modules/")[2], package["version"]): package.get("license") for path, package in kept}


def npm_locks() -> dict[str, Path]:
    """By `node/` and the folder's name."""
    return {f"node/{lock.parent.name}": lock for lock in sorted(NPM_LOCKS.glob("*/package-lock.json"))}


def npm_components() -> list[dict[str, Any]]:
    """The components of all locks of npm's."""
    found: dict[Package, tuple[str | None, list[str]]] = {}
    for name, lock in npm_locks().items():
        for package, said in of_npm(lock).items():
            found.setdefault(package, (said, []))[1].append(name)
    return components(found, lambda name, version: f"pkg:npm/{name.replace('@', '%40')}@{version}")


def document(locks: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The CycloneDX document of packages by the name of their lock, and of those of npm's locks."""
    found: dict[Package, tuple[str | None, list[str]]] = {}
    for lock, packages in sorted(locks.items()):
        for metadata in packages:
            package = (normal(metadata["name"]), metadata["version"])
            found.setdefault(package, (licence(metadata), []))[1].append(lock)
    made = components(found, lambda name, version: f"pkg:pypi/{name}@{version}") + npm_components()
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": made}


def components(
    found: dict[Package, tuple[str | None, list[str]]], purl: Callable[[str, str], str]
) -> list[dict[str, Any]]:
    """Of packages with their licence and the locks that hold them. One that nobody has looked at ends the program."""
    bad = [
        f"{name} {version}: {said}" for (name, version), (said, _) in found.items() if not parts(said or "") <= ALLOWED
    ]
    if bad:
        sys.exit("licences that nobody has looked at yet:\n  " + "\n  ".join(bad))
    return [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": purl(name, version),
            "licenses": [{"expression": said}],
            "properties": [{"name": "orch:environment", "value": lock} for lock in of],
        }
        for (name, version), (said, of) in sorted(found.items())
    ]


def main() -> None:
    if shutil.which("uv") is None:
        print("there is no program `uv`, which reads the packages of a lock\n  hint: pip install uv", file=sys.stderr)
        sys.exit(2)
    made = document({lock.stem: asked(lock) for lock in sorted(LOCKS.glob("*.txt"))})
    DOCUMENT.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    print(f"{DOCUMENT.name}: {len(made['components'])} packages")


if __name__ == "__main__":
    main()
