# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from headrace.engine.clocks import of_workers, shared_by_vnfs
from headrace.engine.counts_testdata import counts
from headrace.measure.audit import audit
from headrace.record.counters import WorkerReading
from headrace.record.facts import Facts


def _findings(*cpus_of_vnfs: int) -> list[tuple[bool, float | None]]:
    """What the audit says of an lcore 1 that was busy for 1.5 times the time that there was."""
    vnfs = {f"vnf{i}": {"cpus": [cpu]} for i, cpu in enumerate(cpus_of_vnfs)}
    shared = shared_by_vnfs(counts({"tsc_hz": 10**9, "vnfs": vnfs}))
    workers = [
        WorkerReading(cpu=cpu, ref_cycles=1000, ops_cycles=ops)
        for cpu, ops in ((0, 900), (1, 1500))
    ]
    facts = Facts(
        sent=1, received=1, lost=0, clocks=of_workers(workers, 10**9, {}, 1.0, 1.0, shared)
    )
    return [(one.ok, one.value) for one in audit(facts).findings if one.check == "time"]


def test_vnfs_on_one_lcore_may_be_busy_for_longer_than_there_is_time() -> None:
    """Each takes the others' turns for its own work; one that is alone there has no such excuse."""
    assert _findings(1, 1) == [(True, 0.9)]
    assert _findings(1, 2) == [(False, 1.5)]
    assert _findings() == [(False, 1.5)]
