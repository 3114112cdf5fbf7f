# SPDX-License-Identifier: Apache-2.0
"""What would be seen of a trial on a described server: figures and counters, out of costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ground.simulated.readings import AskedLoad, Expected, counted_of, parts_of_model
from headrace.record.counters import Counters
from headrace.record.estimates import Predicted, Span
from headrace.record.facts import Facts, Observation
from headrace.record.figures import Figures, LatencyNs, gbps
from headrace.record.identity import Direction
from headrace.record.latency import pdv
from headrace.record.segments import Segment
from headrace.spec.study import Experiment

_QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class SimulatedTrial:
    """What all of a trial's directions have in common."""

    experiment: Experiment
    segments: tuple[Segment, ...]
    load: AskedLoad
    labels: tuple[str, ...]
    server: str


def latency_of(delays: NDArray[np.float64] | None) -> LatencyNs | None:
    if delays is None or not len(delays):
        return None
    p50, p90, p99, p999 = (float(one) for one in np.quantile(delays, _QUANTILES))
    return LatencyNs(
        mean=float(delays.mean()), min=float(delays.min()), p50=p50, p90=p90, p99=p99, p999=p999,
        max=float(delays.max()),
    )  # fmt: skip


def observations(trial: SimulatedTrial, ways: Mapping[Direction, Expected]) -> list[Observation]:
    """One per direction, and their sum when there are two."""
    counters = counted_of(list(ways.values()), trial.segments, trial.experiment, trial.load)
    single = [_observation(trial, {name: one}, counters) for name, one in ways.items()]
    return single if len(single) == 1 else [*single, _observation(trial, ways, counters)]


@dataclass(frozen=True)
class _Packets:
    """What became of a trial's packets."""

    sent: int
    received: int
    full: int  # that a full ring turned away
    dropped: int  # by functions

    @classmethod
    def of(cls, one: Expected, seconds: float) -> _Packets:
        sent, carried = round(one.sent_pps * seconds), round(one.carried_pps * seconds)
        received = round(one.received_pps * seconds)
        return cls(sent, received, sent - carried, carried - received)

    def __add__(self, other: _Packets) -> _Packets:
        return _Packets(
            self.sent + other.sent, self.received + other.received, self.full + other.full,
            self.dropped + other.dropped,
        )  # fmt: skip


def _observation(
    trial: SimulatedTrial, ways: Mapping[Direction, Expected], counters: Counters
) -> Observation:
    seconds, experiment = trial.load.seconds, trial.experiment
    [first, *others] = ways.values()
    packets = _Packets.of(first, seconds)
    for one in others:
        packets += _Packets.of(one, seconds)
    no_loss = packets.dropped if experiment.study.measure.losses == "unintended" else 0
    lost = packets.sent - packets.received - no_loss
    wanted = sum(trial.load.wanted_pps or one.sent_pps for one in ways.values())
    delays = [one.delays for one in ways.values()]
    known = [one for one in delays if one is not None]
    all_known = len(known) == len(delays) and all(len(one) for one in known)
    delay = latency_of(np.concatenate(known)) if all_known else None
    # Each way is a stream of its own (RFC 5481): what they differ by all the time is no variation.
    beyond = latency_of(np.concatenate([one - one.min() for one in known])) if all_known else None
    figures = Figures(
        load_pps=wanted,
        **_rates(packets, seconds, experiment.frame.mean_bytes),
        offered_pps=wanted,
        loss_ratio=lost / packets.sent if packets.sent else 0.0,
        latency_ns=delay,
        pdv_ns=pdv(beyond),
        ground="predicted",
        intended=round(wanted * seconds),
        lost=lost,
        policy_dropped=no_loss,
        drops=_drops(ways, packets),
        flows=experiment.flows,
        segments=trial.segments,
        labels=trial.labels,
        predicted=_predicted(trial, ways),
        counters=counters,
        limits=() if others else first.limits,
        utilisation={str(one.cpu): one.utilisation for one in counters.workers},
        nf_cycles=_nf_cycles(counters),
    )
    asked = round(wanted * seconds) if trial.load.wanted_pps else None
    facts = Facts(
        sent=packets.sent, received=packets.received, lost=lost, asked=asked,
        intended_s=seconds, took_s=seconds,
    )  # fmt: skip
    return Observation("both" if others else next(iter(ways)), figures, facts)


def _rates(packets: _Packets, seconds: float, frame: float) -> dict[str, Any]:
    received = packets.received / seconds
    return {
        "throughput_pps": received,
        "throughput_gbps_l1": gbps(received, frame, layer=1),
        "throughput_gbps_l2": gbps(received, frame),
        "sent_pps": packets.sent / seconds,
        "received_pps": received,
        "duration_s": seconds,
        "frame_bytes_mean": frame,
        "sent": packets.sent,
        "received": packets.received,
    }


def _predicted(trial: SimulatedTrial, ways: Mapping[Direction, Expected]) -> Predicted:
    """The load that a part can carry is that of all directions shown."""
    every = list(ways.values())
    return Predicted(
        server=trial.server,
        carried_pps=Span(low=sum(w.least for w in every), high=sum(w.most for w in every)),
        narrowest=every[0].narrowest,
        parts=tuple(parts_of_model(every[0].priced, trial.segments, len(ways))),
    )


def _drops(ways: Mapping[Direction, Expected], packets: _Packets) -> dict[str, int]:
    """Functions' are of the shares that the study says."""
    name, one = next(iter(ways.items()))
    full = "nic/full" if one.priced.owners else f"wire-{name}/full"
    places = {full: packets.full, "chain/drop": packets.dropped}
    return {place: count for place, count in places.items() if count}


def _nf_cycles(counters: Counters) -> dict[str, float]:
    return {
        name: cycles
        for r in counters.replicas
        for name, nf in r.nfs.items()
        if (cycles := nf.cycles_per_packet) is not None
    }
