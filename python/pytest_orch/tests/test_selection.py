"""Which cases are collected, and which of them a run covers."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HEAD, StandIn, model


def runs(folder: Path) -> list[str]:
    """The calls of `orch run` that a stand-in has recorded."""
    calls = (folder / "calls").read_text().splitlines()
    return [call for call in calls if call.startswith("run ")]


def test_collecting_runs_nothing_and_writes_nothing(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    before = set(folder.rglob("*"))
    result = pytester.runpytest("specs/all.yaml", "--collect-only", "-q", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["specs/all.yaml::first:cpu-fp32", "specs/all.yaml::second:cpu-fp32"])
    assert set(folder.rglob("*")) == before


def test_one_run_covers_the_whole_spec_and_a_second_session_executes_nothing(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    record = stand_in("")
    pytester.runpytest("specs/all.yaml", record).assert_outcomes(passed=2)
    assert runs(folder) == ["run specs/all.yaml --json"]
    pytester.runpytest("specs/all.yaml", stand_in("assert '\"executed\": 0' in output")).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["specs/all.yaml::first:cpu-fp32", "specs/all.yaml::third:cpu-fp32"],
        ["specs/all.yaml", "-k", "first or third"],
        ["specs/all.yaml", "--deselect", "specs/all.yaml::second:cpu-fp32"],
    ],
)
def test_one_run_covers_the_selected_cases(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn, arguments: list[str]
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second") + model("third"))
    result = pytester.runpytest(stand_in(""), *arguments)
    assert result.parseoutcomes()["passed"] == 2
    assert runs(folder) == ["run specs/all.yaml --json --case first:cpu-fp32 --case third:cpu-fp32"]


def test_a_case_that_the_spec_lacks_is_an_error(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    for name in ("left:cpu-fp32", "right:cpu-fp32[0]", "right::cpu-fp32"):
        result = pytester.runpytest(f"specs/all.yaml::{name}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: not found: *"])


def test_a_setting_names_specs(pytester: pytest.Pytester, folder: Path, program: str) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    (folder / "specs/other.yaml").write_text("not: [a, spec")
    pytester.mkdir("tests")
    pytester.makepyfile(**{"tests/test_other": "def test_it(): pass"})
    for testpaths in ("", "testpaths = tests\n"):
        pytester.makeini(f"[pytest]\norch = {program}\norch_specs = specs/all.yaml\n{testpaths}")
        pytester.runpytest().assert_outcomes(passed=2)
    pytester.runpytest("tests").assert_outcomes(passed=1)
    pytester.runpytest("specs").assert_outcomes(passed=1)


def test_folders_of_orch_are_searched_only_if_they_are_named(
    pytester: pytest.Pytester, folder: Path, program: str
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    pytester.makeini(f"[pytest]\norch = {program}\norch_specs = specs/all.yaml\n")
    for _ in range(2):
        pytester.runpytest().assert_outcomes(passed=1)
    for named in ("orch-out/tests", "orch-out/tests/test_right_cpu-fp32.py"):
        result = pytester.runpytest(named, "--collect-only")
        result.stdout.fnmatch_lines(["*orch-out/tests/test_right_cpu-fp32.py*"])


def test_specs_with_the_same_case_ids_have_a_run_each(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn
) -> None:
    (folder / "specs/one.yaml").write_text(HEAD + model("same"))
    (folder / "specs/two.yaml").write_text(HEAD + model("same", expected="wrong.npz"))
    result = pytester.runpytest("specs/one.yaml", "specs/two.yaml", "-v", stand_in(""))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["specs/one.yaml::same:cpu-fp32 PASSED*", "specs/two.yaml::same:cpu-fp32 FAILED*"], consecutive=True
    )
    assert runs(folder) == ["run specs/one.yaml --json", "run specs/two.yaml --json"]


def test_options_for_orch_choose_cases(pytester: pytest.Pytester, folder: Path, stand_in: StandIn) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    result = pytester.runpytest(
        "specs/all.yaml", stand_in(""), "--orch-args=-m first --cache-dir 'my store'", "--orch-run-args=--retries 2"
    )
    result.assert_outcomes(passed=1)
    assert runs(folder) == ["run specs/all.yaml --json -m first --cache-dir my store --retries 2"]
    assert (folder / "my store").is_dir() and not (folder / "cache").exists()


def test_a_case_that_the_run_leaves_out_is_skipped(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("first") + model("second"))
    result = pytester.runpytest("specs/all.yaml", "-rs", "--orch-run-args=--partition slice:1/2")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*the run of orch left this case out; it covers: partition slice:1/2"])


def test_the_first_failure_ends_the_session(pytester: pytest.Pytester, folder: Path, stand_in: StandIn) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("wrong", expected="wrong.npz") + model("right"))
    (folder / "specs/more.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", "specs/more.yaml", "-x", stand_in(""))
    result.assert_outcomes(failed=1)
    assert runs(folder) == ["run specs/all.yaml --json"]


def test_other_orders_of_tests_run_orch_once(pytester: pytest.Pytester, folder: Path, stand_in: StandIn) -> None:
    (folder / "specs/one.yaml").write_text(HEAD + model("first") + model("second"))
    (folder / "specs/two.yaml").write_text(HEAD + model("first") + model("second"))
    pytester.makeconftest("def pytest_collection_modifyitems(items): items.sort(key=lambda item: item.name)")
    result = pytester.runpytest("specs/one.yaml", "specs/two.yaml", stand_in(""))
    result.assert_outcomes(passed=4)
    assert len(runs(folder)) == 2
