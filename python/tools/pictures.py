"""Draws the README's pictures from a report: its HTML page in a headless Chromium, light and dark.

Usage: PYTHONPATH=python python3 -m tools.pictures [--report PAGE] [--browser PROGRAM] [--size 1280x800]
"""

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/pictures"
# As Chromium numbers them.
SCHEMES = {"dark": 0, "light": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--report", type=Path, default=Path("orch-out/report/index.html"))
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--size", default="1280x800", help="of the part from the top, CSS pixels")
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, scheme in SCHEMES.items():
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000"]
        flags += [f"--window-size={args.size.replace('x', ',')}", f"--blink-settings=preferredColorScheme={scheme}"]
        picture = FOLDER / f"report-{name}.png"
        argv = [args.browser, *flags, f"--screenshot={picture}", args.report.resolve().as_uri()]
        subprocess.run(argv, check=True, capture_output=True, timeout=120)
        print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
