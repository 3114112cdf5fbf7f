# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadInput, HeadraceError
from headrace.model.hosting import ServerPorts, best_case, capacity, explain, of_port
from headrace.spec.server import Server as Description


def description(
    nodes: dict[int, tuple[int, ...]],
    usable: tuple[int, ...],
    nics: list[tuple[int | None, int]],
) -> Description:
    """What `headrace server detect` would find, by node and number of virtual functions."""
    cpus = tuple(cpu for own in nodes.values() for cpu in own)
    unknown = ("driver", "vendor", "device", "speed_mbps", "queues", "physical_function")
    return Description.model_validate(
        {
            **dict.fromkeys(("cpu", "hypervisor", "memory_bytes", "tsc_invariant")),
            **dict.fromkeys(("isolated_cpus", "cores", "caches"), ()),
            "hostname": "server",
            "architecture": "x86_64",
            "sockets": len(nodes),
            "cpus": cpus,
            "usable_cpus": usable,
            "nodes": tuple(
                {
                    **dict.fromkeys(("memory_bytes", "free_bytes")),
                    **dict.fromkeys(("hugepages", "distances"), ()),
                    "node": node,
                    "cpus": own,
                }
                for node, own in nodes.items()
            ),
            "nics": tuple(
                {
                    **dict.fromkeys(unknown),
                    "address": str(i),
                    "interfaces": (),
                    "node": node,
                    "vfs_max": most,
                    "vfs": (),
                }
                for i, (node, most) in enumerate(nics)
            ),
        }
    )


def test_s1_server() -> None:
    """4 ports of 63 VFs, 32 lcores on two sockets: min(4 * 63, 32)."""
    assert capacity(ServerPorts.even(ports=(0, 0, 1, 1), vfs=63, lcores=32, sockets=2)) == 32


def test_one_port_has_its_own_socket_only() -> None:
    """16 VNFs without loss of one port: Wang et al.'s lossless-vnfs."""
    assert capacity(ServerPorts.even(ports=(0,), vfs=63, lcores=32, sockets=2)) == 16


def test_virtual_functions_limit() -> None:
    assert capacity(ServerPorts.even(ports=(0, 1), vfs=7, lcores=32, sockets=2)) == 14


@given(st.integers(1, 8), st.integers(1, 256), st.integers(1, 256), st.integers(1, 4))
def test_all_ports_in_use(per_socket: int, vfs: int, lcores: int, sockets: int) -> None:
    """With as many ports on each socket it is min(a*b, c), up to what does not divide."""
    ports = tuple(s for s in range(sockets) for _ in range(per_socket))
    server = ServerPorts.even(ports=ports, vfs=vfs, lcores=lcores, sockets=sockets)
    formula = min(len(ports) * vfs, lcores)
    assert formula - len(ports) < capacity(server) <= formula
    assert all(of_port(server, p) <= vfs for p in range(len(ports)))


def test_a_port_on_no_socket() -> None:
    with pytest.raises(BadInput, match="allowed: 0 to 1"):
        ServerPorts.even(ports=(2,), vfs=1, lcores=2, sockets=2)


def test_a_detected_server() -> None:
    """Two NICs of 7 functions on two nodes; node 1 has three lcores, of which one is not ours."""
    server = description(
        {0: (0, 1), 1: (2, 3, 4)}, usable=(0, 1, 2, 3), nics=[(0, 7), (1, 7), (1, 0), (None, 1)]
    )
    ports = ServerPorts.detected(server)
    assert (ports.ports, ports.vfs, ports.lcores) == ((0, 1, 0), (7, 7, 1), (2, 2))
    assert capacity(ports) == 1 + 2 + 1
    assert list(explain(ports))[1] == "port 1 (node 1): 2, limited by lcores of node 1"


def test_a_server_without_functions() -> None:
    with pytest.raises(HeadraceError, match="no NIC here has SR-IOV functions"):
        ServerPorts.detected(description({0: (0, 1)}, usable=(0, 1), nics=[(0, 0)]))


def test_best_case() -> None:
    assert best_case(2.23, 4) == pytest.approx(8.92)
    assert best_case(2.23, 10, 20.0) == 20.0
