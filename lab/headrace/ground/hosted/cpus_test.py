# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ground.hosted.cpus import Cpu, describe_cpu, pin, without_siblings
from headrace.spec.hosting import Hosting

# Two sockets of four cores with two threads each, numbered as Linux does: threads last.
SERVER = [Cpu(n, (n % 8 // 4, n % 4), n % 8 // 4) for n in range(16)]
SWITCH = Cpu(0, (0, 0), 0)


class Refused(Exception):
    pass


def refuse(key: str, problem: str) -> Exception:
    return Refused(f"{key}: {problem}")


def pinned(vnfs: int, cpus: list[Cpu] = SERVER, vcpus: int = 1, **hosting: object) -> list[int]:
    spec = Hosting.model_validate({"kind": "process", **hosting})
    return [lcores[0] for lcores in pin(spec, vnfs, cpus, SWITCH, refuse, vcpus)]


# The papers' servers, numbered as Linux does: first all cores of both sockets, then their siblings.
S1_SERVER = (2, 8)  # 2 x Xeon E5-2650: sockets, cores of each; two threads of each
S2_SERVER = (2, 12)  # 2 x Xeon Gold 5118


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> list[Cpu]:
    """As `describe_cpu` reads it of /sys."""
    sockets, each = request.param
    cores = sockets * each
    for number in range(2 * cores):
        folder = tmp_path / f"cpu{number}"
        (folder / "topology").mkdir(parents=True)
        socket, core = divmod(number % cores, each)
        (folder / "topology" / "physical_package_id").write_text(f"{socket}\n")
        (folder / "topology" / "core_id").write_text(f"{core}\n")
        (folder / f"node{socket}").mkdir()
    return [describe_cpu(number, tmp_path) for number in range(2 * cores)]


def for_vnfs(server: list[Cpu], traffic: list[int], cores: int) -> list[Cpu]:
    """So many physical cores of each socket, none of them the traffic's."""
    free = without_siblings([cpu.number for cpu in server], traffic, lambda n: server[n])
    kept = [server[number] for number in free]
    return [
        cpu
        for cpu in kept
        if sorted({other.core for other in kept if other.node == cpu.node}).index(cpu.core) < cores
    ]


@pytest.mark.parametrize("server", [S2_SERVER], indirect=True)
@pytest.mark.parametrize(
    ("vms", "ratio", "cores_of_a_vm", "vcpus_of_a_core"),
    [(10, "1:1", 2, 1), (20, "2:1", 1, 2), (40, "4:1", 1, 4)],
)
def test_vcpus_of_a_machine_are_siblings(
    server: list[Cpu], vms: int, ratio: str, cores_of_a_vm: int, vcpus_of_a_core: int
) -> None:
    """Ben Hamed et al. 2020 figures 7 to 9: 10, 20 and 40 machines of two vCPUs on 20 of the
    server's 24 cores."""
    cpus = for_vnfs(server, traffic=[0, 12], cores=10)
    placed = pinned(vms, cpus, vcpus=2, oversubscription=ratio)
    machines = [placed[i : i + 2] for i in range(0, len(placed), 2)]
    assert {len({server[n].core for n in one}) for one in machines} == {cores_of_a_vm}
    assert {server[a].node == server[b].node for a, b in machines} == {True}
    assert all(a != b for a, b in machines)  # siblings, not twice the same thread
    assert set(Counter(server[n].core for n in placed).values()) == {vcpus_of_a_core}
    assert not {server[n].core for n in placed} & {server[n].core for n in (0, 12)}
    with pytest.raises(Refused, match=f"{vms + 1} VNFs of 2 vCPUs at {ratio} on 20 physical cores"):
        pinned(vms + 1, cpus, vcpus=2, oversubscription=ratio)


@pytest.mark.parametrize("server", [S2_SERVER], indirect=True)
def test_machines_fill_the_nics_socket_first(server: list[Cpu]) -> None:
    placed = pinned(5, for_vnfs(server, traffic=[0, 1], cores=10), vcpus=2)
    assert placed == [2, 26, 3, 27, 4, 28, 5, 29, 6, 30]


@pytest.mark.parametrize("server", [S1_SERVER], indirect=True)
def test_generators_siblings_stay_free(server: list[Cpu]) -> None:
    """Wang et al.'s machine has 32 lcores: with one for traffic, 30 are left for VNFs of one vCPU,
    those of the NIC's socket first, and a core each before any core has two."""
    free = without_siblings(range(32), [0], lambda n: server[n])
    assert free == [n for n in range(32) if n not in (0, 16)]
    placed = pinned(30, [server[n] for n in free])
    assert placed[:15] == [*range(1, 8), *range(8, 16)]
    assert sorted(placed) == free


def test_one_core_is_shared_with_the_generator() -> None:
    only = [Cpu(0, (0, 0), 0), Cpu(1, (0, 0), 0)]
    assert without_siblings([0, 1], [0], lambda n: only[n]) == [1]


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
    spec = Hosting(kind="process", placement="random")
    assert pin(spec, 3, SERVER, SWITCH, refuse) == [tuple(range(16))] * 3


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
