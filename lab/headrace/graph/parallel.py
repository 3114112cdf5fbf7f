# SPDX-License-Identifier: Apache-2.0
"""Which neighbours may work on a packet at the same time (Sun et al., NFP, SIGCOMM 2017, table 3).

Two VNFs in sequence may run in parallel when the packets that come out, joined, are those that
the sequence would have given. What decides it is what they declare they read, write and drop.
"""

from __future__ import annotations

from enum import Enum

from headrace.graph.knowledge import Category, HeaderField, KnownVnf


class Parallel(Enum):
    """The verdict for `first` then `second`."""

    NO = "no"
    SHARED = "shared"  # both work on the same packet
    COPY = "copy"  # one works on a copy; the join merges what each wrote


def verdict(first: KnownVnf, second: KnownVnf) -> Parallel:
    """May `second` start before `first` is done?"""
    if Category.LEAF in (first.category, second.category):
        return Parallel.NO  # a leaf has its copy already; there is nothing to join
    if first.changes_volume or second.changes_volume:
        return Parallel.NO  # packets are made or merged: none to join them by
    if HeaderField.LENGTH in first.writes | second.writes:
        return Parallel.NO
    if first.writes & second.reads:
        return Parallel.NO  # the second would read what is about to change
    if first.reads & second.writes or first.writes & second.writes:
        return Parallel.COPY  # the join takes the second's value, as the sequence does
    return Parallel.SHARED


def may_join(first: KnownVnf, second: KnownVnf) -> bool:
    """Whether the two, in this order, may as well run in parallel."""
    return verdict(first, second) is not Parallel.NO
