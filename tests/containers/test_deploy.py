# SPDX-License-Identifier: Apache-2.0
"""Real appliances in real containers: chains that work, by their own counters.

`make test-containers` builds the images that these tests need and runs them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.containers import (
    beside_other_work,
    explained,
    findings,
    headrace,
    lacking,
    ours,
    results,
    run,
)

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

ENTERPRISE = ("nat", "ip-firewall", "l7-cache", "l4-lb", "ids", "traffic")
OVS_TOOLS = shutil.which("ovs-vsctl")


def needs(*vnfs: str) -> pytest.MarkDecorator:
    why = lacking(*vnfs)
    return pytest.mark.skipif(why is not None, reason=str(why))


@needs(*ENTERPRISE)
@pytest.mark.parametrize(
    "network",
    [
        "bridge",
        pytest.param(
            "ovs",
            marks=pytest.mark.skipif(OVS_TOOLS is None, reason="Open vSwitch is not installed"),
        ),
    ],
)
def test_a_chain_of_five(tmp_path: Path, network: str) -> None:
    before = ours()
    done = run(
        tmp_path,
        f"name: test\ndeployment: {{hosting: {{kind: appliances, network: [{network}]}}}}\n"
        "chain: [nat, ids, ip-firewall, l7-cache, l4-lb]\nmeasure: {trial: 1 s}\n",
    )
    [result] = results(done)
    checks = findings(result)
    assert {"path", "content", "nat: translated", "l7-cache: hits", "l4-lb: spread", "ids: alerts",
            "server1: addresses", "server2: addresses"} <= set(checks)  # fmt: skip
    assert all(finding["ok"] for finding in checks.values()), checks
    assert 0.45 < checks["l7-cache: hits"]["value"] < 0.55  # half of the requests are repeated
    assert result["application"]["hit_ratio"] == checks["l7-cache: hits"]["value"]
    assert checks["ids: alerts"]["value"] >= 1
    assert checks["l4-lb: spread"]["value"] >= 0.5
    assert result["application"]["requests"] > 0
    assert result["application"]["errors"] == 0
    assert ("ovs-vswitchd" in result["application"]["cpu"]) == (network == "ovs")
    diagnoses = explained(tmp_path)
    [compared] = [d for d in diagnoses if d["rule"] == "narrowest-vnf"]
    assert compared["place"].startswith(f"{network}, http ")
    assert not [d for d in diagnoses if d["deployments"]]  # there is but one
    assert ours() <= before


@needs("l7-cache", "traffic")
@pytest.mark.parametrize("generator", ["wrk", "h2load"])
def test_the_hit_ratio_holds_when_more_has_passed_than_a_cache_holds(
    tmp_path: Path, generator: str
) -> None:
    """Without `no-store` for what is asked for once, a full cache answered 4 %."""
    memory_mb, object_kb = 8, 64
    done = run(
        tmp_path,
        "name: test\nchain: [l7-cache]\nrepetitions: 2\n"
        "deployment:\n  hosting:\n    kind: appliances\n"
        f"    vnfs: {{l7-cache: {{parameters: {{memory_mb: {memory_mb}}}}}}}\n"
        f"workload: {{kind: http, object_kb: {object_kb}, hot_objects: 20, repeated: 30%, "
        f"generator: {generator}}}\nmeasure: {{trial: 2 s}}\nwarmup: 0 s\n",
    )
    passed_kb = 0
    for result in results(done):
        checks, application = findings(result), result["application"]
        # Of what the servers answered, which count for themselves, none was one of the hot ones.
        asked_kb = application["counters"]["l7-cache"]["misses_fetched"] * object_kb
        seen = [application["counters"][f"server{n}"]["requests"] for n in (1, 2)]
        passed_kb += sum(seen) * object_kb
        assert asked_kb == pytest.approx(sum(seen) * object_kb, rel=0.02)
        assert application["hit_ratio_asked"] == 0.3
        assert abs(application["hit_ratio"] - 0.3) < 0.05
        assert checks["l7-cache: hits"]["ok"], checks
        assert checks["l7-cache: misses"]["ok"], checks
    assert passed_kb > 2 * 1024 * memory_mb


@needs("l7-cache", "traffic")
def test_a_cache_that_cannot_hold_what_is_repeated_is_suspect(tmp_path: Path) -> None:
    spec = (
        "name: test\nchain: [l7-cache]\nmeasure: {trial: 2 s}\n"
        "workload: {kind: http, object_kb: 64, hot_objects: 1000}\n"
        "deployment:\n  hosting:\n    kind: appliances\n"
    )
    small = spec + "    vnfs: {l7-cache: {parameters: {memory_mb: 8}}}\n"
    [result] = results(run(tmp_path, small))
    late = beside_other_work(result)  # a tester that was kept from its CPU is said first
    assert result["audit"]["verdict"] in ["suspect"] + ["generator-bound"] * late
    assert not findings(result)["l7-cache: hits"]["ok"]
    [result] = results(run(tmp_path, spec))  # which gives it a size by the workload
    assert findings(result)["l7-cache: hits"]["ok"], findings(result)


@needs("nat", "ip-firewall", "l7-cache", "l4-lb", "traffic")
def test_macvlan(tmp_path: Path) -> None:
    before = ours()
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: {kind: appliances, network: [macvlan]}}\n"
        "chain: [nat, ip-firewall, l7-cache, l4-lb]\nmeasure: {trial: 1 s}\n",
    )
    [result] = results(done)
    assert all(finding["ok"] for finding in findings(result).values())
    assert ours() <= before


@needs("nat", "ip-firewall", "traffic")
def test_every_workload_through_routed_vnfs(tmp_path: Path) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.utils import wrpcap

    capture = [Ether() / IP(dst="192.0.2.1") / UDP(sport=1000 + i, dport=53) for i in range(50)]
    wrpcap(str(tmp_path / "c.pcap"), capture)
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: appliances}\nchain: [nat, ip-firewall]\n"
        "measure: {loads: [500], trial: 1 s}\nwarmup: 0 s\nworkload:\n"
        "- {kind: http, generator: h2load}\n"
        "- {kind: tcp}\n"
        "- {kind: udp, rate_mbps: 10}\n"
        "- {kind: rr}\n"
        "- {kind: rr, transport: udp, request: 100}\n"
        "- {kind: pcap, file: c.pcap}\n",
    )
    by_workload = results(done)
    by_kind = {result["workload"].split(" ")[0]: result for result in by_workload}
    if len(by_workload) == 4:
        assert "has no netperf" in done.stderr  # no trixie to be had when the image was built
    else:
        assert by_kind["TCP_RR"]["latency_ns"]["p50"] > 0
        assert by_kind["UDP_RR"]["application"]["requests"] > 0
    assert by_kind["http"]["application"]["requests"] > 0
    assert by_kind["http"]["latency_ns"]["p50"] <= by_kind["http"]["latency_ns"]["p99"]
    _both_directions(by_kind["tcp"])
    assert 0.005 < by_kind["udp"]["application"]["gbps"] < 0.015
    replayed = by_kind["pcap"]
    assert replayed["received"] > 100
    assert replayed["received"] <= replayed["sent"] + 20  # and an ARP or two
    for result in by_workload:
        assert findings(result)["nat: translated"]["ok"]
        assert findings(result)["ip-firewall: accepted"]["ok"]


def _both_directions(tcp: dict[str, Any]) -> None:
    """Goodput is iperf3's word; the kernel's counters of both ends are the outside one."""
    streams = tcp["application"]
    assert streams["gbps"] > 0
    # Its headers, and what iperf3 says on its own connection.
    assert streams["gbps"] * 0.95 < streams["to_servers_gbps"] < streams["gbps"] * 1.2
    assert 0 < streams["to_clients_gbps"] < 0.2 * streams["gbps"]  # acknowledgements
    both = streams["to_servers_gbps"] + streams["to_clients_gbps"]
    assert tcp["direction"] == "both"
    assert tcp["throughput_gbps_l2"] == pytest.approx(both)


@needs("nat", "ip-firewall", "traffic")
def test_cpus_hold_what_the_kernel_forwards(tmp_path: Path) -> None:
    """A NAT has no process that forwards: its share of the CPUs is held all the same, and known."""
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: appliances}\nchain: [nat, ip-firewall]\n"
        "sweep: {deployment.hosting.vnfs.nat.cpus: [0.05, 0.4]}\n"
        "workload: {kind: tcp}\nmeasure: {trial: 2 s}\nwarmup: 1 s\n",
    )
    measured = results(done)
    small, large = (r["application"] for r in measured)
    # Three runs beside other work had 0.887 to 0.900 of the quota, 0.037 to 0.039 CPUs of it in the
    # stack, and 5.5 to 6.8 times the rate of 8 times the quota, as there was no time for all of it:
    # packets that its ring had no room for, and interruptions, leave a NAT some of its quota.
    assert 0.7 < small["quota"]["nat"] < 1.05
    assert 0.025 < small["stack"]["nat"] < 0.05
    if not any(map(beside_other_work, measured)):  # which leaves less than 0.4 CPUs
        assert large["gbps"] > 3.5 * small["gbps"]
    assert 0.001 < small["stack"]["ip-firewall"] < 0.01
    assert 2_000 < small["cycles"]["ip-firewall"] < 12_000  # 5,100 to 5,500


@needs("nat", "router", "traffic")
@pytest.mark.parametrize("link", ["af_packet", "af_xdp"])
def test_own_source_and_sink_have_a_latency_per_packet(
    tmp_path: Path, engine_binary: Path, link: str
) -> None:
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: appliances}\nchain: [nat, router]\n"
        f"workload: {{frame: 128, flows: 64, link: {link}}}\n"
        "measure: {loads: [500], trial: 1 s}\nwarmup: 0 s\n",
        HEADRACE_ENGINE=str(engine_binary),
    )
    [result] = results(done)
    assert result["sent"] > 0
    assert result["received"] + result["lost"] == result["sent"]
    assert result["received"] > 0.5 * result["sent"]
    assert result["latency_ns"]["min"] > 1000  # no kernel forwards twice in a microsecond
    assert "closed-loop" not in result["labels"]
    assert findings(result)["router: forwarded"]["ok"]


@needs("nat", "headrace", "traffic")
@pytest.mark.parametrize("link", ["af_packet", "af_xdp"])
def test_the_engine_is_a_vnf_among_others(tmp_path: Path, link: str) -> None:
    before = ours()
    done = run(
        tmp_path,
        "name: test\nchain: [nat, headrace]\n"
        "deployment:\n  hosting:\n    kind: appliances\n"
        f"    vnfs: {{headrace: {{parameters: {{link: {link}}}}}}}\n"
        "workload: {kind: http, connections: 4}\nmeasure: {trial: 1 s}\nwarmup: 0 s\n",
    )
    [result] = results(done)
    checks = findings(result)
    assert all(finding["ok"] for finding in checks.values()), checks
    assert checks["headrace: forwarded"]["value"] > result["application"]["requests"]
    assert ours() <= before


@needs("nat", "router", "traffic")
def test_instances_share_flows_by_their_hash(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "name: test\nchain: [router, nat]\ndeployment:\n  hosting:\n    kind: appliances\n"
        "    vnfs: {nat: {instances: 2}, router: {instances: 2, cpus: 0.5}}\n"
        "workload: {kind: http, connections: 32}\nmeasure: {trial: 1 s}\nwarmup: 0 s\n",
    )
    [result] = results(done)
    checks = findings(result)
    assert all(finding["ok"] for finding in checks.values()), checks
    assert {f"{vnf} {n}" for vnf in ("nat", "router") for n in (1, 2)} <= {
        check.partition(":")[0].replace(".", " ") for check in checks
    }


@needs("nat", "traffic")
def test_an_image_of_the_users_with_ports_and_addresses_of_its_own(tmp_path: Path) -> None:
    """It does nothing: the kernel of its namespace forwards."""
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: {kind: appliances, images: {mine: {\n"
        "    kind: routed, image: 'debian:bookworm-slim',\n"
        "    command: [sleep, infinity], ports: {up: eth0, down: lan.7},\n"
        "    addresses: {up: 10.20.30.40, down: 192.0.2.77},\n"
        "    health: [test, -e, /sys/class/net/lan.7]}}}}\n"
        "chain: [nat, mine]\nmeasure: {trial: 1 s}\nwarmup: 0 s\n",
    )
    [result] = results(done)
    checks = findings(result)
    assert all(finding["ok"] for finding in checks.values()), checks
    assert "10.20.30.120" in checks["server1: addresses"]["text"]  # the NAT's, on that network


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_sriov_is_refused_where_no_nic_has_functions(tmp_path: Path) -> None:
    from headrace.host.sriov import physical_functions

    if physical_functions():
        pytest.skip("this machine has a NIC with SR-IOV functions")
    done = run(
        tmp_path,
        "name: test\ndeployment: {hosting: {kind: appliances, network: sriov}}\nchain: [nat]\n",
    )
    assert done.returncode == 2
    assert "no NIC with SR-IOV functions" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@needs("nat", "traffic")
def test_a_bundle_is_replayed_from_another_folder(tmp_path: Path) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.utils import wrpcap

    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    capture = [Ether() / IP(dst="192.0.2.1") / UDP(sport=1000 + i, dport=53) for i in range(50)]
    wrpcap(str(first / "c.pcap"), capture)
    (first / "rules.yaml").write_text("rules: [nat first]\n")
    done = run(
        first,
        "name: test\ndeployment: {hosting: {kind: appliances}}\n"
        "graphs: {vnfs: [nat], base: headrace, rules: [rules.yaml]}\n"
        "workload: {kind: pcap, file: c.pcap}\nmeasure: {loads: [500], trial: 1 s}\n",
    )
    [result] = results(done)
    (first / "bundle-0").rename(tmp_path / "moved")
    shutil.rmtree(first)
    second.mkdir()
    again = headrace(second, "run", str(tmp_path / "moved"), "--out", "bundle", "--json")
    [replayed] = results(again)
    for key in ("chain", "execution", "workload", "direction", "goal"):
        assert replayed[key] == result[key]
    assert replayed["received"] > 100
