# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadInput
from headrace.model.hosting import Server, best_case, capacity, of_port


def test_s1_server() -> None:
    """4 ports of 63 VFs, 32 lcores on two sockets: min(4 * 63, 32)."""
    assert capacity(Server(ports=(0, 0, 1, 1), vfs=63, lcores=32, sockets=2)) == 32


def test_one_port_has_its_own_socket_only() -> None:
    """16 VNFs without loss of one port: S1's lossless-vnfs."""
    assert capacity(Server(ports=(0,), vfs=63, lcores=32, sockets=2)) == 16


def test_virtual_functions_limit() -> None:
    assert capacity(Server(ports=(0, 1), vfs=7, lcores=32, sockets=2)) == 14


@given(st.integers(1, 8), st.integers(1, 256), st.integers(1, 256), st.integers(1, 4))
def test_all_ports_in_use(per_socket: int, vfs: int, lcores: int, sockets: int) -> None:
    """With as many ports on each socket it is min(a*b, c), up to what does not divide."""
    ports = tuple(s for s in range(sockets) for _ in range(per_socket))
    server = Server(ports=ports, vfs=vfs, lcores=lcores, sockets=sockets)
    formula = min(len(ports) * vfs, lcores)
    assert formula - len(ports) < capacity(server) <= formula
    assert all(of_port(server, p) <= vfs for p in range(len(ports)))


def test_a_port_on_no_socket() -> None:
    with pytest.raises(BadInput, match="allowed: 0 to 1"):
        Server(ports=(2,), vfs=1, lcores=2, sockets=2)


def test_best_case() -> None:
    assert best_case(2.23, 4) == pytest.approx(8.92)
    assert best_case(2.23, 10, 20.0) == 20.0
