# SPDX-License-Identifier: Apache-2.0
"""What bounds a chain on a described server and is no lcore: as the records of a measured one have
it, so that a report names it alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.ground.hosted.parts import NIC
from headrace.ground.simulated.hosted_way import CAP, DEVICES
from headrace.ground.simulated.priced_hosted import HostedLayout, switch_gbps_of
from headrace.ground.simulated.priced_layout import NIC_RATE, PORT, PricedLayout
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.record.segments import Limit, LimitKind
from headrace.spec.described import DescribedServer
from headrace.spec.study import Experiment

_BY_PLACE: dict[str, LimitKind] = {PORT: "port", NIC_RATE: "nic-rate"}


def limits_of(
    priced: PricedLayout,
    experiment: Experiment,
    server: DescribedServer,
    sent_pps: float,
    carried_pps: float,
    seconds: float,
) -> tuple[Limit, ...]:
    """Frames that are lost are lost in front of what is narrowest."""
    capacity, _ = priced.capacity()
    lost = round(max(0.0, sent_pps - carried_pps) * seconds)
    each = [
        *_of_hosted(priced, experiment, server, sent_pps, carried_pps),
        *_of_ports(priced.caps, experiment, server, carried_pps),
    ]
    return tuple(
        one.model_copy(update={"dropped": lost if pps <= min(capacity, sent_pps) else 0})
        for one, pps in each
    )


def _of_ports(
    caps: Mapping[str, float], experiment: Experiment, server: DescribedServer, carried: float
) -> Iterator[tuple[Limit, float]]:
    bits = (experiment.frame.mean_bytes + L1_OVERHEAD_BYTES) * 8
    for name, pps in caps.items():
        yield (
            Limit(
                kind=_BY_PLACE[name], place=server.name, gbps=pps * bits / 1e9, used=carried / pps,
                crossings=1.0,
            ),
            pps,
        )  # fmt: skip


def _of_hosted(
    priced: PricedLayout,
    experiment: Experiment,
    server: DescribedServer,
    sent: float,
    carried: float,
) -> Iterator[tuple[Limit, float]]:
    """The way of each kind that has most to carry, and the licence that has least."""
    if not isinstance(priced, HostedLayout):
        return
    lcores, hosting = priced.lcores_pps(), experiment.hosting
    shared: tuple[tuple[LimitKind, float | None], ...] = (
        ("switch", switch_gbps_of(experiment, server)),
        ("uplink", hosting.uplink_gbps),
    )
    for kind, gbps in shared:
        ways = [cpu for name, cpu in DEVICES.items() if name.startswith(kind) and cpu in lcores]
        if gbps is None or not ways:
            continue
        worst = min(ways, key=lambda cpu: lcores[cpu])
        crossings = sum(stage.cpus.count(worst) for stage in priced.way)
        yield (
            Limit(kind=kind, place=NIC, gbps=gbps, used=carried / lcores[worst],
                  crossings=crossings),
            lcores[worst],
        )  # fmt: skip
    licensed = [cpu for cpu in lcores if cpu <= CAP]
    if licensed and hosting.rate_cap_gbps is not None:
        worst = min(licensed, key=lambda cpu: lcores[cpu])
        caps = [stage for stage in priced.way if worst in stage.cpus]
        # A licence is behind its VNF: what does not come so far asks nothing of it.
        before = priced.way[: priced.way.index(caps[0])]
        asked = min([sent, *(lcores[cpu] for stage in before for cpu in stage.cpus)])
        yield (
            Limit(
                kind="rate-cap", place=priced.names[worst].removeprefix("rate cap of "),
                gbps=hosting.rate_cap_gbps, used=asked / lcores[worst],
                crossings=sum(1 / len(stage.cpus) for stage in caps),
            ),
            lcores[worst],
        )  # fmt: skip
