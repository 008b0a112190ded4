"""The program `orch`: how it is found, called, ended, and what its exit codes mean."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_orch.report import Report, ReportError

GRACE_SECONDS = 5.0
"""How long orch may take to end by itself. It ends running steps within two seconds, and then keeps their results."""

BUG = 70
INTERRUPTED = 130
WITH_REPORT = (0, 1, 3, BUG, INTERRUPTED)
"""The exit codes with which orch prints a report. With 3 nothing ran, for example because hardware is missing."""


class OrchError(Exception):
    """orch could not be started, or ended without a report; the message is for the user."""


@dataclass(frozen=True)
class Ended:
    """A call of orch that has ended."""

    command: str
    code: int
    output: str
    messages: str


@dataclass(frozen=True)
class Ran:
    """A run: its report, and what went wrong that no case of the report shows."""

    report: Report
    trouble: str | None


@dataclass(frozen=True)
class Orch:
    """The program, the folder in which it runs, and the options of each call."""

    program: str
    folder: Path
    options: Sequence[str]
    run_options: Sequence[str]
    show: Callable[[str], object]
    """Receives each line that a run prints on standard error."""

    def look(self, spec: str) -> Report:
        """The cases of a spec, with what the store already holds of them. Nothing runs, and no file is written."""
        ended = self._call(["report", spec, "--format", "json", "--allow-none", *self.options], _ignore)
        return _report(ended)

    def run(self, spec: str, cases: Sequence[str]) -> Ran:
        """Runs cases of a spec; without any given, all that the options select."""
        selection = [word for case in cases for word in ("--case", case)]
        ended = self._call(["run", spec, "--json", *selection, *self.options, *self.run_options], self.show)
        report = _report(ended)
        return Ran(report=report, trouble=_trouble(ended, report))

    def _call(self, arguments: Sequence[str], show: Callable[[str], object]) -> Ended:
        program = shutil.which(self.program)
        if program is None:
            raise OrchError(
                f"there is no program `{self.program}`\n"
                "  hint: install orch, or name the program by --orch=PATH or by the setting `orch` of pytest's file"
            )
        messages = []
        # A file takes output of any length while the lines of standard error are read.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            try:
                process = subprocess.Popen(
                    [program, *arguments],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                )
            except OSError as error:
                raise OrchError(
                    f"`{program}` cannot be started: {error.strerror}\n"
                    "  hint: name the program orch by --orch=PATH or by the setting `orch` of pytest's file"
                ) from error
            assert process.stderr is not None
            try:
                for line in process.stderr:
                    messages.append(line)
                    show(line)
                code = process.wait()
            except KeyboardInterrupt:
                # A terminal interrupts orch as well. A second interrupt would end orch before it has kept its results.
                _end(process, is_interrupted=True)
                raise
            except BaseException:
                _end(process, is_interrupted=False)
                raise
            finally:
                process.stderr.close()
            output.seek(0)
            return Ended(
                command=shlex.join(["orch", *arguments]),
                code=code,
                output=output.read(),
                messages="".join(messages).rstrip(),
            )


def _ignore(_line: str) -> None:
    """Shows nothing."""


def _end(process: subprocess.Popen[str], is_interrupted: bool) -> None:
    """Ends orch: by its own end if it is interrupted already, else by an interrupt, and at last by force."""
    try:
        if is_interrupted and _ends_in_time(process):
            return
        process.send_signal(signal.SIGINT)
        _ends_in_time(process)
    finally:
        process.kill()


def _ends_in_time(process: subprocess.Popen[str]) -> bool:
    """Whether orch ends within the grace period."""
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _report(ended: Ended) -> Report:
    """The report that orch printed. Raises OrchError with all of orch's messages if there is none."""
    if ended.code < 0:
        name = signal.strsignal(-ended.code)
        raise OrchError(_with_messages(ended, f"`{ended.command}` was ended by signal {-ended.code} ({name})"))
    if ended.code not in WITH_REPORT:
        raise OrchError(_with_messages(ended, f"`{ended.command}` ended with exit code {ended.code}"))
    try:
        return Report.of(json.loads(ended.output))
    except json.JSONDecodeError as error:
        problem = f"its output is not a whole JSON document ({error})"
        hint = "run the command by itself; if its output is cut there too, report that as a bug in orch"
    except ReportError as error:
        problem = str(error)
        hint = "install orch and pytest-orch from the same checkout"
    message = f"`{ended.command}` ended with exit code {ended.code}, but {problem}"
    raise OrchError(_with_messages(ended, f"{message}\n  hint: {hint}"))


def _trouble(ended: Ended, report: Report) -> str | None:
    """What went wrong besides the cases, if anything did."""
    if ended.code == BUG:
        return _with_messages(ended, f"`{ended.command}` met a bug in orch: exit code {BUG}")
    if ended.code == INTERRUPTED:
        return _with_messages(ended, f"`{ended.command}` was interrupted: exit code {INTERRUPTED}")
    if report.failed_steps > 0:
        return _with_messages(ended, f"steps of the spec that belong to no case failed: {report.failed_steps}")
    return None


def _with_messages(ended: Ended, text: str) -> str:
    """A text, and below it all that orch printed on standard error."""
    if not ended.messages:
        return text
    return f"{text}\n\n{ended.messages}"
