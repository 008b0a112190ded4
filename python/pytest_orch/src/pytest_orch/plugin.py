"""The plugin: specs are files of tests, cases are tests, and one run of orch gives the outcomes of a spec's tests."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_orch.program import Orch, OrchError, Ran
from pytest_orch.report import Case

SKIPPED = frozenset({"SKIP_UNAVAILABLE", "SKIP_UNSUPPORTED", "INDECISIVE", "MOCK", "PASS_FALLBACK"})
"""The states that neither fail a run of orch nor count as passed."""

WHOLE_FILES = frozenset({"loadfile", "loadscope"})
"""The distributions of pytest-xdist that give all tests of a file to one worker."""

MARK = ".orch"
"""The file that orch writes into folders of its own: the store, and the folder of generated tests."""

ORCH = pytest.StashKey[Orch]()
RUNS = pytest.StashKey[dict[Path, "Ran | OrchError"]]()


class OrchWarning(pytest.PytestWarning):
    """A case passed, and orch has a remark on it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options and settings of the plugin."""
    group = parser.getgroup("orch", "cases of orch as tests")
    group.addoption("--orch", metavar="PATH", dest="orch_program", help="program orch (default: orch on PATH)")
    group.addoption(
        "--orch-args",
        metavar="ARGS",
        default="",
        help='options that choose cases or folders, such as --orch-args="-t cpu --check"',
    )
    group.addoption(
        "--orch-run-args",
        metavar="ARGS",
        default="",
        help='options of orch run alone, such as --orch-run-args="--retries 2"',
    )
    parser.addini("orch", "program orch; a path begins at pytest's root folder", default="")
    parser.addini("orch_specs", "specs whose cases are collected", type="paths", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the calls of orch, and adds the specs of the settings where no argument names what to collect."""
    config.stash[ORCH] = Orch(
        program=_program(config),
        folder=config.invocation_params.dir,
        options=_words(config, "--orch-args"),
        run_options=_words(config, "--orch-run-args"),
        show=_show_live if config.getoption("capture") == "no" else _show_nothing,
    )
    if config.args_source != config.ArgsSource.ARGS:
        for spec in config.getini("orch_specs"):
            if not _is_collected(config, spec):
                config.args.append(str(spec))


def _program(config: pytest.Config) -> str:
    """The name or the path of orch."""
    option = config.getoption("orch_program")
    if option:
        return str(option)
    setting = str(config.getini("orch"))
    if os.sep in setting:
        return str(config.rootpath / setting)
    return setting or "orch"


def _words(config: pytest.Config, option: str) -> list[str]:
    """The value of an option, split as by a shell."""
    try:
        return shlex.split(config.getoption(option))
    except ValueError as error:
        raise pytest.UsageError(f"{option}: the value cannot be split into words: {error}") from error


def _show_live(line: str) -> None:
    """Prints a line of orch's progress. With `pytest -s` standard error is not captured."""
    sys.stderr.write(line)


def _show_nothing(_line: str) -> None:
    """Leaves orch's progress out: captured, it would stand in the report of the first case that failed."""


def _is_collected(config: pytest.Config, spec: Path) -> bool:
    """Whether a spec is among pytest's arguments, or in a folder that is."""
    return any(path == spec or path in spec.parents for path in _arguments(config))


def _arguments(config: pytest.Config) -> list[Path]:
    """The paths that pytest's arguments name, without the tests within them."""
    return [config.invocation_params.dir / argument.split("::")[0] for argument in config.args]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores folders of orch's own, unless an argument names them: generated tests need packages of their own."""
    if not (collection_path / MARK).is_file():
        return None
    if any(path == collection_path or collection_path in path.parents for path in _arguments(config)):
        return None
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the distribution of pytest-xdist to a worker, whose own options lack it."""
    node.workerinput["orch_dist"] = node.config.getoption("dist")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> OrchSpec | None:
    """Collects the YAML files that an argument of pytest or the setting `orch_specs` names."""
    is_argument = file_path.suffix in (".yaml", ".yml") and parent.session.isinitpath(file_path)
    if is_argument or file_path in parent.config.getini("orch_specs"):
        return OrchSpec.from_parent(parent, path=file_path)
    return None


class OrchSpec(pytest.File):
    """A spec. One run of orch before its first test covers all of its selected cases."""

    ids: list[str]
    """The ids of all cases of the spec."""

    first_failed: str | None = None
    """The node id of the test that shows why orch failed."""

    def collect(self) -> Iterable[OrchCase]:
        """Yields a test for each case that orch finds in the spec."""
        distribution = getattr(self.config, "workerinput", {}).get("orch_dist", "no")
        if distribution not in WHOLE_FILES | {"no"}:
            raise self.CollectError(
                f"pytest-xdist distributes by `{distribution}`, and would run the cases of a spec on several workers\n"
                "  hint: add --dist loadfile, which runs each spec on one worker"
            )
        try:
            report = self.config.stash[ORCH].look(self._name())
        except OrchError as error:
            raise self.CollectError(f"{error}{_hint_on_options(error)}") from error
        self.ids = list(report.cases)
        for case in report.cases.values():
            yield OrchCase.from_parent(self, name=case.id, row=case.row)

    def _name(self) -> str:
        """The spec's path as a user would write it where pytest was started."""
        return os.path.relpath(self.path, self.config.invocation_params.dir)

    def run(self) -> Ran | OrchError:
        """The run of the spec, which the first test of a session starts."""
        runs = self.session.stash.setdefault(RUNS, {})
        if self.path not in runs:
            try:
                runs[self.path] = self.config.stash[ORCH].run(self._name(), self._selection())
            except OrchError as error:
                runs[self.path] = error
        return runs[self.path]

    def _selection(self) -> list[str]:
        """The ids of the selected cases; none if all are selected, as a run of the whole spec needs no selection."""
        of_spec = (item for item in self.session.items if isinstance(item, OrchCase) and item.path == self.path)
        selected = list(dict.fromkeys(item.name for item in of_spec))
        return [] if len(selected) == len(self.ids) else selected

    def teardown(self) -> None:
        """Fails if something went wrong in the run that no case shows."""
        ran = self.session.stash.get(RUNS, {}).get(self.path)
        if isinstance(ran, Ran) and ran.trouble is not None:
            pytest.fail(ran.trouble, pytrace=False)


def _hint_on_options(error: OrchError) -> str:
    """A remedy for an option that only `orch run` has."""
    if "unexpected argument" not in str(error):
        return ""
    return "\n  hint: --orch-args takes options that choose cases or folders; --orch-run-args takes all others"


class OrchCase(pytest.Item):
    """A case of a spec."""

    parent: OrchSpec

    def __init__(self, *, row: str | None, **rest: Any) -> None:
        """Makes the test of a case whose model stands at `row`: `specs/all.yaml:12`."""
        super().__init__(**rest)
        self.row = row

    def setup(self) -> None:
        """Fails if the run of orch gave no report. The first test of the spec shows all that orch printed."""
        ran = self.parent.run()
        if not isinstance(ran, OrchError):
            return
        if self.parent.first_failed is None:
            self.parent.first_failed = self.nodeid
            pytest.fail(str(ran), pytrace=False)
        summary, *_ = str(ran).splitlines()
        pytest.fail(f"{summary}\nsee {self.parent.first_failed}", pytrace=False)

    def runtest(self) -> None:
        """Turns the verdict of orch into an outcome of pytest."""
        case = self._result()
        self.user_properties.extend(case.figures)
        if case.status in SKIPPED:
            pytest.skip(f"{case.status}: {case.reason}")
        if case.status == "FLAKY":
            self.warn(OrchWarning(f"{self.nodeid}: FLAKY: {case.reason}"))
        elif case.status == "XFAIL" or case.is_lenient_success:
            self.add_marker(pytest.mark.xfail(reason=case.expectation, strict=False))
        if not case.is_success:
            pytest.fail(case.text, pytrace=False)

    def _result(self) -> Case:
        """The case in the report of the run. A case that the run left out, as `--affected` does, is skipped."""
        ran = self.parent.run()
        assert isinstance(ran, Ran), "setup has failed"
        case = ran.report.cases.get(self.name)
        if case is None:
            pytest.skip(f"the run of orch left this case out; it covers: {ran.report.scope}")
        return case

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place and the heading of the test. A heading that ends the node id would lose its dots in it."""
        return self.path, 0, f"{self.name} in {self.parent.name}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives a skipped case the row of its model as its place, instead of a line of this file."""
    report = yield
    if isinstance(item, OrchCase) and isinstance(report.longrepr, tuple):
        place, _, line = (item.row or f"{item.path}:1").rpartition(":")
        report.longrepr = (place, int(line), report.longrepr[2])
    return report
