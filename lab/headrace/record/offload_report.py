# SPDX-License-Identifier: Apache-2.0
"""What an engine that forwards for routing daemons says of its table."""

from __future__ import annotations

from pydantic import NonNegativeInt

from headrace.record.frozen import Record


class OffloadedVnf(Record):
    """A VNF, and what the engine has learnt from it."""

    name: str
    up: bool  # its daemons run, and say what they forward
    held: bool  # they do not, and its routes are kept for the time being
    ipv4_routes: NonNegativeInt
    ipv6_routes: NonNegativeInt
    next_hops: NonNegativeInt  # that its routes lead to
    neighbours: NonNegativeInt  # whose MAC addresses are known
    sessions: NonNegativeInt  # that its daemons have begun
    updates: NonNegativeInt  # changes of routes, next hops and neighbours
    ignored: NonNegativeInt  # of those, what is no matter of forwarding
    no_room: NonNegativeInt  # and what the tables had no room for
    swept: NonNegativeInt  # routes that did not come again after a restart
    last_update_ns: NonNegativeInt  # by CLOCK_MONOTONIC; 0: none has come


class OffloadReport(Record):
    """headrace offload: one object a line, each `--interval`"""

    vnfs: tuple[OffloadedVnf, ...]
    nodes: NonNegativeInt  # of the table's trie
    next_hops: NonNegativeInt  # of all VNFs
