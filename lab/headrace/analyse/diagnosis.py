# SPDX-License-Identifier: Apache-2.0
"""What a rule says when its condition holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from pydantic import RootModel

from headrace.analyse.rule_evidence import Evidence
from headrace.record.frozen import Record


class Weight(IntEnum):
    """How sure it is that this is what bounds the chain; what is graver comes first."""

    ADVICE = 1  # costs something, but nothing shows that it is the limit
    SHORTAGE = 2  # something is short of time or room
    LOSS = 3  # packets were lost here, for this reason
    TESTER = 4  # the chain was not what was measured


class Diagnosis(Record):
    rule: str
    weight: Weight
    share: float  # of the time, or of the packets, that it concerns: orders equal weights
    place: str
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    deployments: tuple[str, ...] = ()  # of a study with several: those where it was found


class Diagnoses(RootModel[tuple[Diagnosis, ...]]):
    """What `headrace explain` prints."""


Rule = Callable[[Evidence], Iterable[Diagnosis]]
