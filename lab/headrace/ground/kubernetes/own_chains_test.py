# SPDX-License-Identifier: Apache-2.0
"""Chains of headrace's own functions, checked for a cluster that nobody asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import BadInput
from headrace.ground.contract import Checked
from headrace.ground.kubernetes.ground import KubernetesGround
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


@pytest.mark.parametrize(
    "given",
    [{"registry": "evil.example"}, {"agent": "evil"}, {"privileged": True}, {"context": "work"}],
)
def test_a_strangers_bundle_brings_nothing_to_a_cluster(given: dict[str, object]) -> None:
    """No image, no rights; and it chooses no cluster."""
    text = f"name: x\nground: {{kubernetes: {given}}}\nchain: [l2fwd]\n"
    doc = replace(document.parse(text, Path("x.yaml")), bundled=True, trusted=False)
    ground = KubernetesGround(Kubernetes.model_validate(given))
    [key] = given
    with pytest.raises(BadInput, match=rf"{key}: .*would be run as .* allowed: with --trust"):
        ground.check(doc)
