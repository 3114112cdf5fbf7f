# SPDX-License-Identifier: Apache-2.0
"""Chains of headrace's own functions, checked for a cluster that nobody asks."""

from __future__ import annotations

from pathlib import Path

from headrace.ground.contract import Checked
from headrace.ground.kubernetes.nodes import UnaskedNodes
from headrace.ground.kubernetes.own_chains import PodChains
from headrace.spec import document
from headrace.spec.kubernetes import Kubernetes

SPEC = "name: t\nchain: [l2fwd]\nrepetitions: 3\nmeasure: {search: [ndr]}\n"


def checked(folder: Path, **ground: object) -> Checked:
    spec = folder / "t.yaml"
    spec.write_text(SPEC)
    given = Kubernetes.model_validate(ground)
    return PodChains(given, UnaskedNodes(given)).check(document.load(spec))


def test_points_are_in_turn_unless_each_trial_is_read(tmp_path: Path) -> None:
    """A machine that slows down is to do so for all; what an agent reads is of single trials."""
    assert checked(tmp_path).interleaved
    assert not checked(tmp_path, agent="an/image").interleaved
