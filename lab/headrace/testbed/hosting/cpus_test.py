# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spec.hosting import Hosting
from headrace.testbed.hosting.cpus import Cpu, describe_cpu, pin

# Two sockets of four cores with two threads each, numbered as Linux does: threads last.
SERVER = [Cpu(n, (n % 8 // 4, n % 4), n % 8 // 4) for n in range(16)]
SWITCH = Cpu(0, (0, 0), 0)


class Refused(Exception):
    pass


def refuse(key: str, problem: str) -> Exception:
    return Refused(f"{key}: {problem}")


def pinned(vnfs: int, cpus: list[Cpu] = SERVER, **hosting: object) -> list[int]:
    made = Hosting.model_validate({"kind": "process", **hosting})
    return [lcores[0] for lcores in pin(made, vnfs, cpus, SWITCH, refuse)]


def test_near_the_nic_first() -> None:
    assert pinned(4) == [0, 1, 2, 3]
    assert pinned(8) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_one_to_one_is_a_core_each() -> None:
    assert pinned(8, oversubscription="1:1") == [0, 1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(Refused, match="9 VNFs at 1:1 on 8 physical cores; allowed: at most 8"):
        pinned(9, oversubscription="1:1")


def test_two_to_one_is_a_hardware_thread_each() -> None:
    assert sorted(pinned(16, oversubscription="2:1")) == list(range(16))


def test_four_to_one_doubles_threads() -> None:
    assert set(Counter(pinned(32, oversubscription="4:1")).values()) == {2}


def test_worst_is_the_other_node() -> None:
    assert {SERVER[n].node for n in pinned(8, placement="worst")} == {1}
    with pytest.raises(Refused, match="placement: worst is a node that the NIC is not on"):
        pinned(2, [cpu for cpu in SERVER if cpu.node == 0], placement="worst")


def test_random_is_everywhere() -> None:
    made = Hosting(kind="process", placement="random")
    assert pin(made, 3, SERVER, SWITCH, refuse) == [tuple(range(16))] * 3


def test_explicit() -> None:
    assert pinned(2, placement="explicit", lcores=[5, 5]) == [5, 5]
    with pytest.raises(Refused, match="lcores: 1 entries for 2 VNFs"):
        pinned(2, placement="explicit", lcores=[5])
    with pytest.raises(Refused, match="lcores: names lcore 99"):
        pinned(1, placement="explicit", lcores=[99])


@given(st.integers(1, 63), st.integers(1, 8), st.integers(1, 3))
def test_no_core_has_more_than_the_ratio(vnfs: int, cores: int, threads: int) -> None:
    cpus = [Cpu(t * cores + c, (0, c), 0) for t in range(threads) for c in range(cores)]
    ratio = -(-vnfs // cores)
    placed = pinned(vnfs, cpus, oversubscription=f"{ratio}:1")
    per_core = Counter(n % cores for n in placed)
    assert max(per_core.values()) <= ratio
    assert max(per_core.values()) - min(per_core[c] for c in range(cores)) <= 1


def test_reads_the_machine(tmp_path: Path) -> None:
    folder = tmp_path / "cpu3"
    (folder / "topology").mkdir(parents=True)
    (folder / "topology" / "physical_package_id").write_text("1\n")
    (folder / "topology" / "core_id").write_text("7\n")
    (folder / "node1").mkdir()
    assert describe_cpu(3, tmp_path) == Cpu(3, (1, 7), 1)
