"""Reports of orch: the part of `orch run --json` and of `orch report --format json` that tests need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSION = 1
"""The version of the document that this module reads. orch raises it when a field goes or changes its meaning."""

Figure = str | int | float | bool


class ReportError(Exception):
    """A document is not a report of orch that this plugin can read; the message names the reason."""


@dataclass(frozen=True)
class Case:
    """A case of a report: its state, the reason, the evidence, and its figures."""

    id: str
    status: str
    reason: str
    row: str | None
    expectation: str
    """The failure that the spec's `expect` names, with its reason; empty without one."""
    is_lenient: bool
    """Whether the expectation lets an unexpected success pass (`strict: false`)."""
    figures: list[tuple[str, Figure]]
    text: str
    """All that a reader needs in order to find the cause of a failure."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Case:
        """The case that an element of a report's `cases` holds."""
        expected = document.get("expected")
        return cls(
            id=document["case"],
            status=document["status"],
            reason=_reason(document),
            row=document.get("row"),
            expectation=f"{expected['status']}: {expected['reason']}" if expected else "",
            is_lenient=expected is not None and not expected["strict"],
            figures=_figures(document),
            text=_text(document),
        )

    @property
    def is_lenient_success(self) -> bool:
        """Whether the case passed unexpectedly, and the spec lets that pass."""
        return self.status == "XPASS" and self.is_lenient

    @property
    def is_success(self) -> bool:
        """Whether the outputs are right, and the spec does not forbid that."""
        return self.status in ("PASS", "FLAKY") or self.is_lenient_success


@dataclass(frozen=True)
class Report:
    """A report: its cases by their ids, the selection that it covers, and the count of failed steps of no case."""

    cases: dict[str, Case]
    scope: str | None
    failed_steps: int

    @classmethod
    def of(cls, document: Any) -> Report:
        """The report in a JSON document. Raises ReportError if this plugin cannot read the document."""
        version = document.get("version") if isinstance(document, dict) else None
        if version is None:
            raise ReportError("the document is not a report of orch")
        if version != VERSION:
            raise ReportError(f"the report has version {version}, and this pytest-orch reads version {VERSION}")
        try:
            cases = [Case.of(case) for case in document["cases"]]
            failed_steps = document["summary"].get("failed_steps", 0)
        except (AttributeError, KeyError, TypeError) as error:
            raise ReportError(f"the report lacks a field or has one of another type: {error}") from error
        return cls(
            cases={case.id: case for case in cases},
            scope=document.get("scope"),
            failed_steps=failed_steps,
        )


def _reason(document: Mapping[str, Any]) -> str:
    """Why the case is in its state. A case that another target ran has the targets, too."""
    reason = document.get("reason") or "orch recorded no reason"
    fallback = document.get("fallback")
    if fallback is None:
        return reason
    return f"ran on {fallback['name']} instead of its own target: {reason}"


def _figures(document: Mapping[str, Any]) -> list[tuple[str, Figure]]:
    """Each single value of `metrics` and `numerics`, named by its path, after the facts that say how to read it."""
    figures: list[tuple[str, Figure]] = []
    for name in ("status", "actual_device", "measured", "cached"):
        value = document.get(name)
        if value is not None:
            figures.append((name, value))
    for section in ("metrics", "numerics"):
        for name, value in (document.get(section) or {}).items():
            if isinstance(value, Figure):
                figures.append((f"{section}.{name}", value))
    return figures


def _text(document: Mapping[str, Any]) -> str:
    """State and reason, evidence, the end of the log, and the command that repeats the case."""
    stage = document.get("stage")
    place = f" at {stage}" if stage else ""
    lines = [f"{document['status']}{place}: {_reason(document)}"]
    known_since = document.get("known_since")
    if known_since:
        lines.append(f'known since {known_since}; executed again by --orch-run-args="--rerun failed"')
    lines += _evidence(document.get("numerics"))
    device = document.get("actual_device")
    if device:
        lines.append(f"device: {device}")
    row = document.get("row")
    if row:
        lines.append(f"row: {row}")
    log = document.get("log")
    if log:
        lines.append("log:")
        lines += [f"  {line}" for line in log.splitlines()]
    repro = document.get("repro")
    if repro:
        lines.append(f"repro: {repro}")
    return "\n".join(lines)


def _evidence(numerics: Mapping[str, Any] | None) -> list[str]:
    """The figures by which outputs were judged, and the reference."""
    if numerics is None:
        return []
    met = [f"the farthest value at {numerics['worst']:.3g} times its bound", f"max_abs {numerics['max_abs']:.3g}"]
    for name in ("cosine", "snr_db", "tokens"):
        value = numerics.get(name)
        if value is not None:
            met.append(f"{name} {value:.6g}")
    return [f"reference: {numerics['reference']}", f"met: {', '.join(met)}"]
