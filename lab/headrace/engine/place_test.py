# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine import place
from headrace.errors import BadInput
from headrace.spec import document
from headrace.spec.study import expand


def test_the_generators_core_has_no_other_work_while_others_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four cores of two threads, numbered as Linux does."""
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
    monkeypatch.setattr(place, "_SYS_CPU", tmp_path)
    assert place.apart_first([1, 2, 3, 4, 5, 6, 7], [0]) == [1, 2, 3, 5, 6, 7, 4]
    assert place.apart_first([2, 3, 4, 5, 6, 7], [0, 1]) == [2, 3, 6, 7, 4, 5]
    monkeypatch.setattr(place, "_SYS_CPU", tmp_path / "none")
    assert place.apart_first([1, 4], [0]) == [1, 4]


NODES = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1}  # lcore: NUMA node


def told(monkeypatch: pytest.MonkeyPatch, lcores: str, chain: str = "a, b, c") -> list[list[int]]:
    monkeypatch.setattr(place, "node_of", NODES.__getitem__)
    names = [name.strip() for name in chain.split(",")]
    nodes = ", ".join(f"{{name: {name}, nf: l2fwd}}" for name in names)
    segments = ", ".join(f"[{name}]" for name in names)
    text = (
        f"name: x\nchain: [{nodes}]\ndeployment:\n  lcores: {{traffic: [0], shared: true}}\n"
        f"  execution: {{segments: [{segments}], lcores: {lcores}}}\n"
    )
    doc = document.parse(text, Path("x.yaml"))
    [one] = expand(doc)
    return [list(segment.cpus) for segment in place.place(one, doc, list(NODES)).segments]


@pytest.mark.parametrize(
    ("lcores", "pinned"),
    [
        ("[[node 0], [node 1], [node 0]]", [[1], [3], [2]]),
        ("[[node 1], [node 1], [node 1]]", [[3], [4], [3]]),  # one has to take two
        ("[[node 0], [node 0], [node 0]]", [[1], [2], [1]]),  # rather than the traffic's
        ("[[node 0], [1], [node 0]]", [[2], [1], [1]]),  # those with a number have it
        ("[[node 0, node 0, node 0], [3], [4]]", [[1, 2, 0], [3], [4]]),  # each replica its own
    ],
)
def test_a_node_stands_for_the_lcore_of_it_that_has_least_to_do(
    monkeypatch: pytest.MonkeyPatch, lcores: str, pinned: list[list[int]]
) -> None:
    assert told(monkeypatch, lcores) == pinned


@pytest.mark.parametrize(
    ("lcores", "words"),
    [
        (
            "[[node 0], [node 2], [1]]",
            "node 2, which has no lcore of ours; allowed: node 0, node 1",
        ),
        (
            "[[node 1, node 1, node 1], [1], [1]]",
            "more often than it has lcores of ours, \\[3, 4\\]",
        ),
        ("[[node 0], [node], [1]]", "got 'node'; allowed: an lcore's number, or `node 1`"),
        ("[[node 0], [true], [1]]", "an lcore's number, or `node 1`"),
        ("[[node 0], [-1], [1]]", "an lcore's number, or `node 1`"),
    ],
)
def test_an_lcore_that_no_node_has(
    monkeypatch: pytest.MonkeyPatch, lcores: str, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        told(monkeypatch, lcores)


@pytest.mark.parametrize(
    ("lcores", "tester", "chain"),
    [
        (2, (0, 0), [1]),
        (4, (0, 0), [1]),  # the next runs may want the others
        (16, (0, 1), [2]),
    ],
)
def test_source_and_sink_have_a_core_each_where_cores_are_plenty(
    lcores: int, tester: tuple[int, int], chain: list[int]
) -> None:
    """Cores of two threads, numbered as Linux does; the chain of one function has one lcore, whose
    core is none of the tester's."""
    doc = document.parse("name: x\nchain: [l2fwd]\n", Path("x.yaml"))
    [one] = expand(doc)
    cores = lcores // 2
    topology = place.Topology(lambda cpu: (cpu % cores, cpu % cores + cores), lambda cpu: 0)
    placed = place.place(one, doc, list(range(lcores)), topology)
    assert ((placed.generator, placed.sink), list(placed.segments[0].cpus)) == (tester, chain)
