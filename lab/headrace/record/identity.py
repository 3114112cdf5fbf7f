# SPDX-License-Identifier: Apache-2.0
"""What tells one measurement from another."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from headrace.record.frozen import Record

Direction = Literal["forward", "reverse", "both"]


# `fitted`: to this very figure, which is no prediction of it.
Origin = Literal["measured", "predicted", "fitted"]


Phase = Literal[
    "calibration", "warm-up", "verify", "search", "fixed", "max", "capacity", "chaos", "operate"
]


class Identity(Record):
    """What a figure is of: one chain, in one direction, deployed and loaded in one way.

    `direction` "both" is the sum over the two directions (latency: their merged histogram).
    """

    chain: str
    direction: Direction
    repetition: NonNegativeInt  # from 1; 0: outside of any repetition
    execution: str
    workload: str
