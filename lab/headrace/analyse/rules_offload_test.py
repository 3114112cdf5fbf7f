# SPDX-License-Identifier: Apache-2.0
"""What the host did in the VNFs' place is counted over all links, and its reason is named."""

from __future__ import annotations

import pytest

from headrace.analyse.rule_evidence import Evidence
from headrace.analyse.rules import explain
from headrace.analyse.spared import Spared, spared
from headrace.record.bundle import Bundle
from headrace.record.counters import Counters, OffloadReading, OutputReading
from headrace.record.rows import Result
from headrace.record.testdata import make_bundle


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return Bundle(make_bundle(tmp_path_factory.mktemp("offload") / "b", repetitions=1)).results()[0]


def offloading(result: Result, **more: int) -> Counters:
    """Two VNFs: one passed 1,000 packets, 900 of them by its host; the other 200, none of them."""
    assert result.counters is not None
    replica = result.counters.replicas[0]
    outputs = {"to-1": OutputReading(packets=1000), "to-2": OutputReading(packets=200)}
    return result.counters.model_copy(
        update={
            "replicas": (replica.model_copy(update={"outputs": outputs}),),
            "offload": {
                "to-1": OffloadReading(hits=900, published=10, voided=3, **more),
                "to-2": OffloadReading(),
            },
        }
    )


def test_packets_are_the_hosts_or_the_vnfs(result: Result) -> None:
    whole = spared([offloading(result), offloading(result, stale=2)])
    assert whole == Spared(host=1800, vnf=600, decisions=20, voided=6, stale=2)
    assert whole.share == 0.75
    assert result.counters is not None and spared([result.counters]) is None


@pytest.mark.parametrize(
    ("more", "why", "remedy"),
    [
        ({}, "10 decisions told, 3 of them void in the end", "flows of more packets"),
        ({"evicted": 2}, "2 gave their place", "room for more flows"),
        ({"no_room": 2}, "2 found no room", "room for more flows"),
        ({"evicted": 1}, "1 gave their place", "flows of more packets"),
        ({"fragments": 9}, "9 fragments, each of which voids", "packets that fit the MTU"),
        ({"stale": 9}, "9 were of tables", "fewer updates of tables"),
        ({"refused": 1}, "1 refused: they made no sense", "a look at the VNFs"),
        ({"refused": 7, "apart": True}, "7 refused: other lcores", "one lcore for the host"),
    ],
)
def test_why_the_host_did_not_do_more(
    result: Result, more: dict[str, int], why: str, remedy: str
) -> None:
    counters = offloading(result, **more)
    evidence = Evidence(results=[result.model_copy(update={"counters": counters})])
    (one,) = (d for d in explain(evidence) if d.rule == "offload")
    assert one.text.startswith("the host did to 75.0\u202f% of the packets")
    assert one.share == pytest.approx(0.25)
    assert any(line.startswith(why) for line in one.evidence)
    assert one.remedy.startswith(remedy)


def test_nothing_is_said_where_nothing_is_offloaded(result: Result) -> None:
    assert all(d.rule != "offload" for d in explain(Evidence(results=[result])))
