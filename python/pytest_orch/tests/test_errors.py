"""Messages where orch gives no verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HEAD, StandIn, model


def test_a_missing_program_is_named_with_a_remedy(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", "--orch=absent")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["there is no program `absent`", "  hint: install orch, or name the program *"])


def test_a_file_that_is_no_program_is_named(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    (folder / "text").write_text("not a program")
    (folder / "text").chmod(0o755)
    result = pytester.runpytest("specs/all.yaml", "--orch=./text")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["`./text` cannot be started: Exec format error"])


def test_mistakes_in_a_spec_are_all_shown_at_collection(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right").replace("family", "famly") + "more: 1\n")
    result = pytester.runpytest("specs/all.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting specs/all.yaml*",
            "`orch report specs/all.yaml *` ended with exit code 2",
            "specs/all.yaml:*: unknown key `famly`*",
            "  hint: *",
            "specs/all.yaml:*: unknown key `more`*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_spec_without_cases(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text("version: 1\n")
    result = pytester.runpytest("specs/all.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the spec has no cases*", "*hint: declare *"])
    (folder / "specs/all.yaml").write_text("version: 1\ncommands:\n  made: {argv: [touch, x], outputs: [x]}\n")
    assert pytester.runpytest("specs/all.yaml").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_an_option_of_the_wrong_kind_is_shown_with_a_remedy(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", "--orch-args=--retries 2")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["error: unexpected argument '--retries' found", "  hint: *--orch-run-args*"])
    result = pytester.runpytest("specs/all.yaml", "--orch-args='-m")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --orch-args: the value cannot be split into words: No closing quotation"])


def test_a_run_that_cannot_begin_is_shown_once(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    result = pytester.runpytest("specs/all.yaml", "--orch-run-args=--no-such-option")
    result.assert_outcomes(errors=2)
    # pytest repeats whole messages in its summary where the variable CI is set.
    details, _ = str(result.stdout).split("short test summary info")
    assert details.count("error: unexpected argument '--no-such-option' found") == 1
    result.stdout.fnmatch_lines(["`orch run *` ended with exit code 2", "see specs/all.yaml::first:cpu-fp32"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "output = output[:1000]",
            "`orch run *` ended with exit code 0, but its output is not a whole JSON document *",
        ),
        ("output = ''", "`orch run *` ended with exit code 0, but its output is not a whole JSON document *"),
        ("output = '[]'", "*but the document is not a report of orch"),
        ("output = '{\"version\": 2}'", "*but the report has version 2, and this pytest-orch reads version 1"),
        ("output = '{\"version\": 1}'", "*but the report lacks a field or has one of another type: 'cases'"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "`orch run *` was ended by signal 11 (Segmentation fault)"),
    ],
)
def test_a_run_without_a_report_is_an_error(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn, lines: str, message: str
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", stand_in(lines))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(("code", "message"), [(70, "met a bug in orch"), (130, "was interrupted")])
def test_verdicts_stay_where_orch_ends_badly_and_the_session_fails(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn, code: int, message: str
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", stand_in(f"code = {code}"))
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"`orch run *` {message}: exit code {code}"])


def test_a_failed_step_of_no_case_fails_the_session(pytester: pytest.Pytester, folder: Path) -> None:
    commands = "commands:\n  failing: {argv: ['false'], outputs: [x]}\n"
    (folder / "specs/all.yaml").write_text(HEAD + model("right") + commands)
    result = pytester.runpytest("specs/all.yaml")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["steps of the spec that belong to no case failed: 1", "FAIL  command:failing *"])
