"""Draws the README's pictures from a report: its HTML page in a headless Chromium, light and dark.

Usage: PYTHONPATH=python python3 -m tools.pictures [--report PAGE] [--browser PROGRAM] [--size 1400x1000]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/pictures"
# As Chromium numbers them.
SCHEMES = {"dark": 0, "light": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--report", type=Path, default=Path("orch-out/report/index.html"))
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--size", default="1400x1000", help="of the part from the top, CSS pixels")
    args = parser.parse_args()
    if not args.report.is_file():
        print(f"there is no report {args.report}\n  hint: just matrix", file=sys.stderr)
        return 2
    if shutil.which(args.browser) is None:
        print(f"there is no program `{args.browser}`\n  hint: --browser PROGRAM, a Chromium", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    # The pictures that are there stay until all of the new ones are drawn.
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix=".pictures-") as folder:
        drawn = [draw(args, Path(folder) / f"report-{name}.png", scheme) for name, scheme in SCHEMES.items()]
        for picture in drawn:
            print(picture.replace(FOLDER / picture.name))
    return 0


def draw(args: argparse.Namespace, picture: Path, scheme: int) -> Path:
    """Writes the picture of the page in one colour scheme, and returns its path."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
    flags += [f"--window-size={args.size.replace('x', ',')}", f"--blink-settings=preferredColorScheme={scheme}"]
    argv = [args.browser, *flags, f"--screenshot={picture}", args.report.resolve().as_uri()]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    if not picture.is_file():
        raise SystemExit(f"`{args.browser}` drew nothing of {args.report}")
    return picture


if __name__ == "__main__":
    sys.exit(main())
