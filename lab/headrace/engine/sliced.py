# SPDX-License-Identifier: Apache-2.0
"""The engine's slices of a trial: read over the control socket, and made columns of."""

from __future__ import annotations

from headrace.engine.running import RunningEngine
from headrace.record.frozen import Record
from headrace.record.slices import ReplicaSlices

MOST = 1000  # of a replica in a trial, evenly chosen: ten seconds of them tell enough


class SlicedReplica(Record):
    cpu: int
    rows: tuple[tuple[int, ...], ...]


class SlicedDelays(Record):
    """A sink's, for each of its writers."""

    columns: tuple[str, ...]
    queues: tuple[tuple[tuple[int, ...], ...], ...]


class SlicesReply(Record):
    """The answer to `slices` (docs/design/contracts.md)."""

    ok: bool
    tsc: int
    tsc_hz: int
    additions: int
    columns: tuple[str, ...]
    segments: dict[str, tuple[SlicedReplica, ...]]
    delays: dict[str, SlicedDelays]


def all_slices(engine: RunningEngine) -> SlicesReply:
    """Replicas have those of the last minute, delays those of the last trial."""
    return SlicesReply.model_validate(engine.request("slices"))


def slices_of(engine: RunningEngine, since: int, until: int) -> tuple[ReplicaSlices, ...]:
    """Those that lie between two TSCs."""
    reply = SlicesReply.model_validate(
        engine.request("slices", since=since, until=until, most=MOST)
    )
    return columns_of(reply)


def columns_of(reply: SlicesReply) -> tuple[ReplicaSlices, ...]:
    """Those of all replicas of all segments."""
    from headrace.model.lines_between import of_pair  # numpy, too

    return of_pair(
        [
            _columns(reply, segment, index, one)
            for segment, replicas in reply.segments.items()
            for index, one in enumerate(replicas)
        ]
    )


def _columns(reply: SlicesReply, segment: str, index: int, one: SlicedReplica) -> ReplicaSlices:
    import numpy as np  # whoever measures nothing starts without it

    table = np.array(one.rows, dtype=np.float64).reshape(len(one.rows), len(reply.columns))
    return ReplicaSlices(
        segment=segment,
        index=index,
        cpu=one.cpu,
        tsc_hz=reply.tsc_hz,
        additions=reply.additions,
        columns={name: table[:, i] for i, name in enumerate(reply.columns)},
    )
