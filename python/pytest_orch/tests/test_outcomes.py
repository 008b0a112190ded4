"""Verdicts of orch as outcomes of pytest."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from conftest import HEAD, StandIn, model, one_operator


def test_right_outputs_pass_with_their_figures(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    result = pytester.runpytest("specs/all.yaml", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    properties = ElementTree.parse(folder / "junit.xml").iter("property")
    figures = {one.attrib["name"]: one.attrib["value"] for one in properties}
    assert figures["status"] == "PASS"
    assert float(figures["metrics.median_ms"]) > 0
    assert int(figures["metrics.peak_rss_bytes"]) > 1_000_000
    assert float(figures["numerics.max_abs"]) < 1e-3
    assert figures["numerics.reference"] == "expected outputs given by the user"


def test_wrong_outputs_fail_with_evidence_and_a_command_and_without_a_traceback(
    pytester: pytest.Pytester, folder: Path
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("wrong", expected="wrong.npz"))
    result = pytester.runpytest("specs/all.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ wrong:cpu-fp32 in all.yaml _*",
            "NUMERICS at run: tensor `y`: 1 of 8 values are beyond the bound*",
            "reference: expected outputs given by the user",
            "met: the farthest value at * times its bound, max_abs *, cosine *, snr_db *",
            "device: cpu",
            "row: specs/all.yaml:8",
            "repro: */python orch-out/tests/test_wrong_cpu-fp32.py",
        ]
    )
    result.stdout.no_fnmatch_line("*plugin.py*")
    assert (folder / "orch-out/tests/test_wrong_cpu-fp32.py").is_file()


def test_an_error_of_a_step_fails(pytester: pytest.Pytester, folder: Path) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("broken", expected="inputs.npz"))
    result = pytester.runpytest("specs/all.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["FAIL at generate: *expects an output `x`*", "repro: orch run specs/all.yaml *--rerun 'generate:broken'"]
    )
    result = pytester.runpytest("specs/all.yaml")
    result.stdout.fnmatch_lines(['known since 20*; executed again by --orch-run-args="--rerun failed"'])


def test_missing_hardware_is_skipped_with_the_reason(pytester: pytest.Pytester, folder: Path) -> None:
    apple = "  apple: {runtime: ort, backend: mps, device: mps, artefact: onnx, precisions: [fp32]}\n"
    (folder / "specs/all.yaml").write_text(HEAD.replace("measure:", apple + "measure:") + model("right"))
    result = pytester.runpytest("specs/all.yaml", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] specs/all.yaml:9: SKIP_UNAVAILABLE: not macOS"])


def test_a_fallback_is_skipped_with_the_target_that_ran(pytester: pytest.Pytester, folder: Path) -> None:
    apple = "  apple: {runtime: ort, backend: mps, device: mps, artefact: onnx, precisions: [fp32], fallback: [cpu]}\n"
    (folder / "specs/all.yaml").write_text(HEAD.replace("measure:", apple + "measure:") + model("right"))
    result = pytester.runpytest("specs/all.yaml", "-rs", "-k", "apple")
    result.assert_outcomes(skipped=1, deselected=1)
    result.stdout.fnmatch_lines(["*PASS_FALLBACK: ran on cpu-fp32 instead of its own target: not macOS"])


def test_what_a_vendor_refuses_is_skipped_in_the_vendor_s_words(pytester: pytest.Pytester, folder: Path) -> None:
    target = "  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}\n"
    determinant = (
        "  determinant: {onnx: determinant.onnx, family: mlp, task: feature-extraction, pipeline: vectors, "
        "inputs: {x: {dtype: float32, shape: [1, 2, 2], data: [1, 2, 3, 4]}}}\n"
    )
    (folder / "specs/determinant.onnx").write_bytes(one_operator("Det", [1, 2, 2]))
    (folder / "specs/all.yaml").write_text(HEAD.replace("measure:", target + "measure:") + determinant)
    result = pytester.runpytest("specs/all.yaml", "-rs", "-k", "openvino")
    result.assert_outcomes(skipped=1, deselected=1)
    result.stdout.fnmatch_lines(["*SKIP_UNSUPPORTED: OpenVINO 20* does not convert the model*Det-17"])


def test_outputs_that_prove_nothing_are_skipped(pytester: pytest.Pytester, folder: Path) -> None:
    noise = (
        "  noise: {onnx: noise.onnx, family: mlp, task: feature-extraction, pipeline: vectors, "
        "inputs: {x: {dtype: float32, shape: [3, 2], normal: [0, 1]}}}\n"
    )
    (folder / "specs/noise.onnx").write_bytes(one_operator("RandomNormalLike", [3, 2]))
    (folder / "specs/all.yaml").write_text(HEAD + noise)
    result = pytester.runpytest("specs/all.yaml", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*INDECISIVE: *draws random*"])


def test_a_device_that_is_only_claimed_is_skipped(
    pytester: pytest.Pytester, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCH_MOCK_DEVICES", "mps")
    (folder / "specs/all.yaml").write_text(HEAD.replace("backend: cpu, device: cpu", "backend: mps") + model("right"))
    result = pytester.runpytest("specs/all.yaml", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*MOCK: *ORCH_MOCK_DEVICES*"])


def test_expected_failures_and_unexpected_successes(pytester: pytest.Pytester, folder: Path) -> None:
    models = model("known", expected="wrong.npz") + model("mended") + model("lenient")
    expect = (
        "matrix:\n  expect:\n"
        "    - {model: known, status: NUMERICS, reason: wrong weights}\n"
        "    - {model: mended, status: NUMERICS, reason: bad driver}\n"
        "    - {model: lenient, status: NUMERICS, reason: bad driver, strict: false}\n"
    )
    (folder / "specs/all.yaml").write_text(HEAD + models + expect)
    result = pytester.runpytest("specs/all.yaml", "-rxX", "-o", "xfail_strict=true")
    result.assert_outcomes(xfailed=1, failed=1, xpassed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ mended:cpu-fp32 in all.yaml _*",
            "XPASS: it passed, but specs/all.yaml:14:7 expects NUMERICS: bad driver; `orch accept` removes that",
            "XFAIL specs/all.yaml::known:cpu-fp32 - NUMERICS: wrong weights",
            "XPASS specs/all.yaml::lenient:cpu-fp32 - NUMERICS: bad driver",
        ]
    )


def test_with_runxfail_an_expected_failure_fails(pytester: pytest.Pytester, folder: Path) -> None:
    expect = "matrix:\n  expect:\n    - {model: known, status: NUMERICS, reason: wrong weights}\n"
    (folder / "specs/all.yaml").write_text(HEAD + model("known", expected="wrong.npz") + expect)
    result = pytester.runpytest("specs/all.yaml", "--runxfail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["XFAIL at run: tensor `y`*", "repro: *"])


@pytest.mark.parametrize("status", ["CRASH", "OOM", "TIMEOUT", "INCOMPLETE", "A_NEW_STATE"])
def test_states_that_are_rare_or_unknown_fail(
    pytester: pytest.Pytester, folder: Path, stand_in: StandIn, status: str
) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    rename = stand_in(f'output = output.replace(\'"status": "PASS"\', \'"status": "{status}"\')')
    result = pytester.runpytest("specs/all.yaml", rename)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{status}: orch recorded no reason"])


def test_a_flaky_case_passes_with_a_warning(pytester: pytest.Pytester, folder: Path, stand_in: StandIn) -> None:
    (folder / "specs/all.yaml").write_text(HEAD + model("right"))
    rename = stand_in('output = output.replace(\'"status": "PASS"\', \'"status": "FLAKY"\')')
    result = pytester.runpytest("specs/all.yaml", rename, "-W", "default")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*OrchWarning: specs/all.yaml::right:cpu-fp32: FLAKY: *"])
