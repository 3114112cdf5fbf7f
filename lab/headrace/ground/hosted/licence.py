# SPDX-License-Identifier: Apache-2.0
"""A VNF's licence (`rate_cap_gbps`): what it may send, and in whose words each network keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.ground.hosted.parts import Vnf
from headrace.record.figures import L1_OVERHEAD_BYTES
from headrace.spec.document import Document
from headrace.spec.hosting import Hosting
from headrace.spec.study import Experiment

_BUCKET_S = 10e-3  # what a VNF that was kept from its CPU may make up for
_NOT_IP_BYTES = 18  # of a frame: Ethernet's header and FCS
_KBPS_LEAST, _KBPS_MOST = 100, (1 << 32) - 1  # whole ones, of Open vSwitch's policer: to 0.5 %
_MBPS_MOST = (1 << 31) - 1  # of max_tx_rate


@dataclass(frozen=True)
class RateCap:
    """A token bucket of layer 1's bytes: so are all limits of hosting. `ip_share`: of each byte
    what lies within Ethernet's frame, on the workload's average."""

    gbps: float
    bucket_bytes: int
    ip_share: float

    @property
    def rate_bps(self) -> int:
        return int(self.gbps * 1e9)

    @property
    def policing_kbps(self) -> int:
        """Open vSwitch's policer counts IP packets (ovs-vswitchd.conf.db(5), cir)."""
        return round(self.gbps * 1e6 * self.ip_share)

    @property
    def policing_burst_kb(self) -> int:
        """It is told in thousands of bits."""
        return max(1, round(self.bucket_bytes * self.ip_share * 8 / 1000))

    @property
    def max_tx_rate(self) -> int:
        """A virtual function is told whole Mbit/s (ip-link(8))."""
        return round(self.gbps * 1e3)


def rate_cap_gbps(one: Vnf, hosting: Hosting) -> float | None:
    """What a VNF's licence allows it to send: an appliance's own goes before that of all."""
    own = None if one.appliance is None else one.appliance.rate_cap_gbps
    return hosting.rate_cap_gbps if own is None else own


def cap_of(one: Vnf, experiment: Experiment) -> RateCap | None:
    """The bucket holds 10 ms of the rate, and what an engine sends at once at the least."""
    gbps, frame = rate_cap_gbps(one, experiment.hosting), experiment.frame
    if gbps is None:
        return None
    burst = experiment.study.deployment.burst * (max(frame.sizes) + L1_OVERHEAD_BYTES)
    within = (frame.mean_bytes - _NOT_IP_BYTES) / (frame.mean_bytes + L1_OVERHEAD_BYTES)
    return RateCap(gbps, max(burst, int(gbps * 1e9 / 8 * _BUCKET_S)), within)


def check_caps(vnfs: Iterable[Vnf], experiment: Experiment, doc: Document) -> None:
    """BadInput where the network's own words have no place for a licence."""
    network = experiment.study.deployment.network
    for one in vnfs:
        cap = cap_of(one, experiment)
        if cap is not None and (allowed := _kept_by(network, cap)) is not None:
            raise doc.error(
                ("deployment", "network"),
                f"{network}, with a rate_cap_gbps of {cap.gbps:g} of {one.name}; {allowed}",
            )


def _kept_by(network: str, cap: RateCap) -> str | None:
    if network == "ovs-dpdk" and not (_KBPS_LEAST <= cap.policing_kbps <= _KBPS_MOST):
        least, most = (kbps / cap.ip_share / 1e6 for kbps in (_KBPS_LEAST, _KBPS_MOST))
        return f"allowed there with such frames: {least:.4f} to {most:.0f} Gbit/s"
    if network == "sriov" and (
        abs(cap.max_tx_rate - cap.gbps * 1e3) > 1e-6 or not 1 <= cap.max_tx_rate <= _MBPS_MOST
    ):
        return "allowed there: whole Mbit/s, as a NIC's max_tx_rate"
    return None
