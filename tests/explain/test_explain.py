# SPDX-License-Identifier: Apache-2.0
"""Conditions provoked for real (provoked.py), and what `headrace explain` names first."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from provoked import CONDITIONS, CannotProvoke, light_traffic, provoke

from headrace.analyse.diagnosis import Diagnosis, Weight
from headrace.analyse.rule_evidence import of
from headrace.analyse.rules import explain
from support.lab import command
from support.netns import Lan

pytestmark = pytest.mark.needs_root

NEEDS = {"conntrack full": "nft", "one softirq core": "taskset", "two on one core": "taskset"}
# Of the whole machine, or of an engine's pace: where others work beside the tests, their work is
# what is found. `python tests/explain/provoke.py` has them, on a machine that is quiet.
QUIET = {
    "one full thread",
    "switch of one thread",
    "one softirq core",
    "small ring",
    "slow function",
    "slow generator",
}


class Provocations:
    """Each condition is provoked once for all tests of it, which takes seconds; for a test that
    failed and is run again, anew."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._known: dict[str, Path] = {}
        self._asked: set[tuple[str, str]] = set()

    def of(self, test: str, condition: str) -> Path:
        if (test, condition) in self._asked:
            self._known.pop(condition, None)
        self._asked.add((test, condition))
        if condition not in self._known:
            folder = self._folders.mktemp("provoked") / "made"
            self._known[condition] = provoke(CONDITIONS[condition], folder)
        return self._known[condition]


@pytest.fixture(scope="module")
def provocations(tmp_path_factory: pytest.TempPathFactory) -> Provocations:
    return Provocations(tmp_path_factory)


@pytest.fixture
def provoked(provocations: Provocations, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    return lambda condition: provocations.of(request.node.nodeid, condition)


def diagnose(folder: Path) -> list[Diagnosis]:
    """What this test's own parts say: cores are shared with whatever else runs here."""
    return [d for d in explain(of(folder)) if d.rule not in ("core-full", "stolen-time")]


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name not in QUIET])
def test_what_was_provoked_is_named_first(provoked: Callable[[str], Path], name: str) -> None:
    tool = NEEDS.get(name)
    if tool is not None and shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    try:
        folder = provoked(name)
    except CannotProvoke as why:
        pytest.skip(str(why))
    first = diagnose(folder)[0]
    assert first.rule == CONDITIONS[name].rule
    assert first.remedy and first.place.startswith(CONDITIONS[name].place)


def test_evidence_has_the_figures(provoked: Callable[[str], Path]) -> None:
    first = diagnose(provoked("cpu quota"))[0]
    assert "0.02 CPUs" in first.evidence[0]
    first = diagnose(provoked("small socket buffer"))[0]
    assert (first.place, first.weight) == ("receiver", Weight.LOSS)
    diagnoses = diagnose(provoked("MTU mismatch"))
    assert any("became 300 datagrams" in t for d in diagnoses for t in d.evidence)


def test_nothing_is_claimed_of_light_traffic(tmp_path: Path, lan: Lan) -> None:
    rules = {d.rule for d in diagnose(light_traffic(tmp_path, lan)) if d.weight >= Weight.SHORTAGE}
    assert rules <= {"waiting-for-a-core", "softirq-on-one-core"}  # others' work on this machine
    assert not rules or os.getloadavg()[0] > 1


def test_the_command_prints_what_was_found(provoked: Callable[[str], Path]) -> None:
    folder = provoked("small socket buffer")
    done = command(("explain", folder, "--json"), folder)
    assert done.returncode == 0, done.stderr
    assert "socket-buffer-full" in [d["rule"] for d in json.loads(done.stdout)]
