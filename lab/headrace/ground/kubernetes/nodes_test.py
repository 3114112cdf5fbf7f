# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import BadInput, HeadraceError
from headrace.ground.kubernetes.nodes import ClusterNodes
from headrace.ground.kubernetes.own_refusals import without_pages
from headrace.spec.document import parse
from headrace.spec.kubernetes import Kubernetes
from headrace.spec.study import Experiment, expand


class Listed:
    """A cluster that has these nodes, all ready, with so much of hugepages."""

    server = "https://test"

    def __init__(self, **pages: str) -> None:
        self._pages = pages

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": name, "labels": {"rack": name, "pages": pages}},
                "spec": {},
                "status": {
                    "nodeInfo": {},
                    "capacity": {},
                    "allocatable": {"cpu": "1", "hugepages-2Mi": pages},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            for name, pages in self._pages.items()
        ]


def nodes(cluster: Listed, **given: Any) -> ClusterNodes:
    one = ClusterNodes(Kubernetes(**given))
    one.__dict__["cluster"] = cluster
    return one


def experiment(hugepages: str) -> Experiment:
    text = f"name: t\nchain: [l2fwd]\ndeployment: {{hugepages: {hugepages}}}\n"
    [one] = expand(parse(text, Path("t.yaml")))
    return one


def test_a_tester_that_is_apart_has_its_node_to_itself() -> None:
    """Unless its node is named for the chain, too."""
    three = Listed(a="0", b="0", c="0")
    assert [nodes(three).of(i) for i in range(4)] == ["a", "b", "c", "a"]
    assert [nodes(three).of(i, "b") for i in range(4)] == ["a", "c", "a", "c"]
    assert nodes(three, nodes="b").of(7, "b") == "b"
    with pytest.raises(HeadraceError, match="no node beside a is ready"):
        nodes(Listed(a="0")).of(0, "a")


def test_nodes_without_a_label_take_no_pods() -> None:
    three = Listed(a="0", b="1280Mi", c="1280Mi")
    here = nodes(three, node_selector={"pages": "1280Mi"})
    assert [here.of(i) for i in range(3)] == ["b", "c", "b"]
    with pytest.raises(BadInput, match=r"kubernetes\.place: got 'a'; allowed: b, c"):
        here.has("a")
    assert nodes(three, node_selector={"pages": "1280Mi", "rack": "c"}).of(5) == "c"
    with pytest.raises(
        HeadraceError, match=r"no node with the labels {rack: z, pages: 0} is ready"
    ):
        nodes(three, node_selector={"rack": "z", "pages": "0"}).of(0)


def test_a_place_that_is_no_node_is_named() -> None:
    here = nodes(Listed(a="0"))
    assert here.has("a") == "a"
    with pytest.raises(BadInput, match=r"kubernetes\.place: got 'z'; allowed: a"):
        here.has("z")


def test_hugepages_that_no_node_has_are_told_before_anything_is_made() -> None:
    """A pod that asks for them would wait for a node that has some."""
    none, some = nodes(Listed(a="0", b="0")), nodes(Listed(a="0", b="1280Mi"))
    assert some.hugepages() == ["b"]
    why = without_pages(experiment("true"), none)
    assert why is not None and why.startswith("deployment.hugepages: got true; no node has pages")
    assert without_pages(experiment("true"), some) is None
    assert without_pages(experiment("auto"), none) is None
