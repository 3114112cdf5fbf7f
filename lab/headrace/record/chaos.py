# SPDX-License-Identifier: Apache-2.0
"""What became of a load, and of the host, while VNFs were killed and started again."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.record.frozen import Record
from headrace.record.own import text
from headrace.record.verdict import Finding

CHAOS = "chaos"  # what a row of the results has as its goal
CHAOS_FILE = "chaos-{:03}.json"  # among a bundle's samples, by trial


class TakenOver(Record):
    """What VNFs that were started again told of the flows that those before them had."""

    restarts: NonNegativeInt  # of which it is known
    live: NonNegativeInt  # flows that the killed ones had
    restored: NonNegativeInt  # that went on with their state
    expired: NonNegativeInt  # whose time was over meanwhile
    lost: NonNegativeInt  # of `live`, neither: begun, mostly, after the last checkpoint
    refused: NonNegativeInt  # checkpoints that their function did not take
    oldest_ms: NonNegativeFloat  # ago the oldest state that went on was written
    pass_ms: NonNegativeFloat  # the longest that a checkpoint of all flows took
    most_at_once: NonNegativeInt  # records that a worker looked at before it went on


class HandedOver(Record):
    """Packets for VNFs that were replaced, and waited for their successors."""

    waited: NonNegativeInt
    most: NonNegativeInt  # at a time, for one of them
    longest_ms: NonNegativeFloat  # that one of them had packets wait
    late: NonNegativeInt  # successors that did not take all of them in time


class ChaosOutcome(Record):
    seconds: NonNegativeFloat
    kills: dict[str, int]  # VNF: how often
    restarts: NonNegativeInt
    sent: NonNegativeInt
    received: NonNegativeInt
    corrupt: NonNegativeInt  # descriptors that a VNF left broken in the memory it shares
    updates: NonNegativeInt  # route changes that the host took in
    mbufs_before: NonNegativeInt
    mbufs_after: NonNegativeInt
    mbufs_room: NonNegativeInt  # that queues and drivers may keep; more would be a leak
    still: NonNegativeInt  # times that no packet at all came through between two kills
    ways: NonNegativeInt  # directions that had the load
    flows_on: bool  # packets go on while a VNF is down, so that `still` is a failure
    taken: TakenOver | None = None  # with checkpoints
    handed_over: HandedOver | None = None  # where no VNF was killed
    not_back: tuple[str, ...] = ()  # VNFs that did not come up again
    left: tuple[str, ...] = ()  # what the run left on the machine, seen when it was over

    @property
    def passed(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        leaked = self.mbufs_after - self.mbufs_before
        checks = [
            Finding(
                check="buffers", ok=leaked <= self.mbufs_room, value=leaked, limit=self.mbufs_room,
                text=f"{leaked} more packet buffers are in use than before the kills.",
            ),
            Finding(
                check="corrupt", ok=self.corrupt == 0, value=self.corrupt, limit=0,
                text=f"The host met {self.corrupt} broken descriptors of VNFs.",
            ),
            Finding(
                check="back", ok=not self.not_back, value=len(self.not_back), limit=0,
                text=f"Not back after they were started again: {', '.join(self.not_back)}."
                if self.not_back else "All VNFs came back.",
            ),
            Finding(
                check="left", ok=not self.left, value=len(self.left), limit=0,
                text=f"Left on the machine: {', '.join(self.left)}." if self.left
                else "Nothing was left on the machine.",
            ),
        ]  # fmt: skip
        if self.taken is not None:
            checks.append(_taken(self.taken))
        if self.handed_over is not None:
            checks.append(_handed_over(self.handed_over, self.sent - self.received))
        if self.flows_on:
            text = f"{self.still} times nothing came through between two kills."
            checks.append(
                Finding(check="still", ok=self.still == 0, value=self.still, limit=0, text=text)
            )
        return tuple(checks)


def _taken(taken: TakenOver) -> Finding:
    """Flows are lost as a matter of course; that none went on is a failure."""
    text = (
        f"{taken.restored} of {taken.live} flows that VNFs had when they ended went on with their "
        f"state, {taken.expired} had expired, {taken.lost} were lost; state was "
        f"{taken.oldest_ms:.0f} ms old at most (a checkpoint of all flows took up to "
        f"{taken.pass_ms:.0f} ms, by "
        f"{taken.most_at_once} at a time at most)."
    )
    return Finding(
        check="checkpoints", ok=taken.restored > 0 or taken.live == 0, value=taken.restored,
        limit=taken.live, text=text,
    )  # fmt: skip


def _handed_over(one: HandedOver, lost: int) -> Finding:
    """Who is replaced in full order loses nothing."""
    text = (
        f"{one.waited} packets waited for VNFs that replaced others, for {one.longest_ms:.0f} ms "
        f"and {one.most} at a time at most; {lost} were lost."
    )
    if one.late:
        text += f" {one.late} times not all of them had gone in time."
    return Finding(
        check="handed-over", ok=lost == 0 and not one.late, value=lost, limit=0, text=text
    )


def chaos_outcomes(bundle: Path) -> dict[int, ChaosOutcome]:
    """Outcomes by trial; none where a bundle is of something else."""
    files = sorted((bundle / "samples").glob("chaos-*.json"))
    told = ((file, text(bundle, f"samples/{file.name}") or "") for file in files)
    return {
        int(file.stem.partition("-")[2]): ChaosOutcome.model_validate_json(one)
        for file, one in told
    }
