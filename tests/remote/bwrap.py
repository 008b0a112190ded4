"""Stands for bubblewrap below buildbox-run: starts the program in the staged folder, in the machine's own file system.

What is tested is a step on a worker that has orch's environments, and not that worker's sandbox. Where tests run, in a
container, none may be made.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
TAKES = {
    "--hostname": 1,
    "--chdir": 1,
    "--uid": 1,
    "--gid": 1,
    "--cap-drop": 1,
    "--unsetenv": 1,
    "--proc": 1,
    "--dev": 1,
}
TAKES |= {"--tmpfs": 1, "--dir": 1, "--bind": 2, "--ro-bind": 2, "--dev-bind": 2, "--setenv": 2, "--symlink": 2}


def main() -> None:
    """Reads bubblewrap's arguments and becomes the program."""
    words, root = sys.argv[1:], None
    while words and words[0].startswith("--"):
        option = words.pop(0)
        values = [words.pop(0) for _ in range(TAKES.get(option, 0))]
        if option == "--bind" and values[1] == "/":
            root = values[0]
        elif option == "--unsetenv":
            os.environ.pop(values[0], None)
        elif option == "--setenv":
            os.environ[values[0]] = values[1]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(root or "/")
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
