"""Ends of orch by an interrupt, and sessions of several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import HEAD, model


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits for a condition, at most 30 seconds."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, "the condition does not hold after 30 seconds"
        time.sleep(0.05)


def heed_interrupts() -> None:
    """Restores what an interrupt does: a shell starts its background jobs with interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("to_group", [True, False])
def test_an_interrupt_ends_orch_and_keeps_its_results(
    pytester: pytest.Pytester, folder: Path, program: str, to_group: bool
) -> None:
    command = "commands:\n  slow: {argv: [sleep, '600'], outputs: [x]}\n"
    (folder / "specs/all.yaml").write_text(HEAD + model("right") + command)
    # Checked cases run beside other steps, which measured ones do not.
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "specs/all.yaml", "--orch-args=--check"],
        cwd=folder,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        log = [program, "log", "right:cpu-fp32", "specs/all.yaml", "--check"]
        wait_until(lambda: "PASS" in subprocess.run(log, cwd=folder, capture_output=True, text=True).stdout)
        if to_group:
            os.killpg(session.pid, signal.SIGINT)
        else:
            session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=30)
    except BaseException:
        os.killpg(session.pid, signal.SIGKILL)
        raise
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    with pytest.raises(ProcessLookupError):
        os.killpg(session.pid, 0)
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", "--orch-args=--check", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    assert '<property name="cached" value="True"' in (folder / "junit.xml").read_text()


def test_progress_is_shown_live_only_without_capture(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("wrong", expected="wrong.npz"))
    result = pytester.runpytest_subprocess("specs/all.yaml")
    assert str(result.stderr) == ""
    result = pytester.runpytest_subprocess("specs/all.yaml", "-s", "--orch-run-args=--rerun case:wrong:*")
    result.stderr.fnmatch_lines(["* wrong:cpu-fp32 *"])


def test_several_workers_each_run_whole_specs(pytester: pytest.Pytester, folder: Path) -> None:
    pytest.importorskip("xdist")
    (folder / "specs/one.yaml").write_text(HEAD + model("first") + model("second"))
    (folder / "specs/two.yaml").write_text(HEAD + model("wrong", expected="wrong.npz"))
    specs = ["specs/one.yaml", "specs/two.yaml"]
    for distribution in ("loadfile", "loadscope"):
        result = pytester.runpytest_subprocess(*specs, "-n", "2", "--dist", distribution)
        result.assert_outcomes(passed=2, failed=1)
    result = pytester.runpytest_subprocess(*specs, "-n", "0")
    result.assert_outcomes(passed=2, failed=1)


def test_a_distribution_that_divides_specs_is_refused(pytester: pytest.Pytester, folder: Path) -> None:
    pytest.importorskip("xdist")
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    result = pytester.runpytest_subprocess("specs/all.yaml", "-n", "2")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["pytest-xdist distributes by `load`*", "  hint: add --dist loadfile*"])
    assert not (folder / "cache").exists()
