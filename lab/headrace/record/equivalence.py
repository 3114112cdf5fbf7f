# SPDX-License-Identifier: Apache-2.0
"""Whether an engine does to packets what headrace's chain does."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeInt

from headrace.record.frozen import Record
from headrace.record.own import text

EQUIVALENCE_FILE = "equivalence-{:03}.json"  # among a bundle's samples


class DifferingFrame(Record):
    """One that only one of them let out."""

    words: str
    frame: str  # hexadecimal


class Equivalence(Record):
    """Frames that went in the same way into headrace's chain and an engine, and came out."""

    engine: str
    chain: str
    workload: str
    seed: NonNegativeInt  # of the random frames
    own: NonNegativeInt  # frames of the workload that were given to both
    probes: NonNegativeInt  # random frames and edge cases
    answers: NonNegativeInt = 0  # from outside, to what each let out under an endpoint it chose
    came: NonNegativeInt  # out of headrace's chain
    came_engine: NonNegativeInt
    missing: NonNegativeInt  # that headrace let out, and the engine did not
    surplus: NonNegativeInt  # that the engine let out, and headrace did not
    first_missing: tuple[DifferingFrame, ...] = ()
    first_surplus: tuple[DifferingFrame, ...] = ()
    declared: tuple[str, ...] = ()  # in what outputs may differ
    not_compared: tuple[str, ...] = ()  # kinds of frames that neither was given
    beside: tuple[str, ...] = ()  # what the engine does more or less

    @property
    def equal(self) -> bool:
        """Nothing came is no proof."""
        return not self.missing and not self.surplus and self.came > 0

    @property
    def verdict(self) -> str:
        if self.equal:
            return "the same"
        if not self.came:
            return "nothing came out of headrace's chain"
        return f"{self.missing} missing, {self.surplus} not expected"


def equivalences(bundle: Path) -> list[Equivalence]:
    files = sorted((bundle / "samples").glob("equivalence-*.json"))
    told = (text(bundle, f"samples/{file.name}") for file in files)
    return [Equivalence.model_validate_json(one) for one in told if one is not None]
