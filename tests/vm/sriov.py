# SPDX-License-Identifier: Apache-2.0
"""SR-IOV on an emulated NIC, inside a guest (tests/vm/run.sh sriov): headrace makes virtual
functions, gives them to VNFs, and a PVVP chain runs over the device's own switch. `sriov.py
PART...` runs these parts only."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from checks import (
    HEADRACE,
    OTHER,
    PF,
    Checks,
    answer,
    functions,
    headrace,
    interface,
    is_up,
    load,
    namespaces,
    state,
    until,
)
from several_ports import spread, trial

from headrace.ground.catalogue import find
from headrace.record.bundle import Bundle

STORAGE = """\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/run/containers/images"
[storage.options]
additionalimagestores = ["/var/lib/containers/storage"]
"""
VFS = 7  # of an 82576's port
LICENCE, LICENCE_GBPS, LICENCE_MBPS = "rate_cap_gbps: 0.5", 0.5, 500
OTHERS_MBPS = 40  # what somebody else holds a function to
ACL = "{acl: {rules: [{action: permit}], default: deny}}"


def spec(name: str, pf: str, vf: str, trial: str = "2 s", kind: str = "process") -> Path:
    file = Path(f"{name}.yaml")
    file.write_text(
        f"""
name: {name}
chain: ['null', {ACL}]
deployment:
  hosting: {{kind: {kind}, vf: {vf}, wait: adaptive}}
  execution: pipeline
  network: sriov
  pf: {pf}
  hugepages: false
  lcores: {{traffic: [0], chain: [1, 2, 3]}}
workload: {{frame: [128], flows: 16}}
warmup: 0
measure: {{loads: [200], trial: {trial}, drain: 2.0}}
"""
    )
    return file


def received_by_wire(name: str) -> int:
    return int(Path(f"/sys/class/net/{name}/statistics/rx_packets").read_text())


def detected(checks: Checks) -> str:
    """What `headrace server detect` says of the NICs; the interface of the one that is used."""
    by_address = {nic["address"]: nic for nic in answer("server", "detect")["nics"]}
    name = interface(PF)
    checks.equal("detect: the NIC's interface", by_address[PF]["interfaces"], [name])
    checks.equal("detect: functions that it can have", by_address[PF]["vfs_max"], VFS)
    checks.equal("detect: none is made", by_address[PF]["vfs"], [])
    checks.equal("detect: nodes", [by_address[a]["node"] for a in (PF, OTHER)], [0, 1])
    return name


def pvvp(
    checks: Checks,
    pf: str,
    peer: str,
    by: str,
    kind: str = "process",
    file: Path | None = None,
    least: int = 100,
) -> None:
    """Tester, VNF, VNF, tester: each hop goes from one virtual function to another."""
    vf = by if kind == "process" else f"{kind}, {by}"
    bundle = Path(f"pvvp-{kind}-{by}-bundle")
    wire = received_by_wire(peer)
    file = file or spec(f"pvvp-{kind}-{by}", pf, by, kind=kind)
    done = headrace("run", str(file), "--out", str(bundle))
    checks.equal(f"{vf}: the run's exit status", done.returncode, 0)
    if done.returncode:
        return
    wire = received_by_wire(peer) - wire
    one = trial(bundle)
    sent = one["sent"]
    checks.that(f"{vf}: packets were sent", sent > least, sent)
    checks.equal(f"{vf}: packets that came back", one["received"], sent)
    checks.equal(
        f"{vf}: lost, doubled, somebody else's",
        [one[key] for key in ("lost", "duplicated", "unstamped")],
        [0, 0, 0],
    )
    replicas = {r["segment"]: r for r in one["counters"]["replicas"]}
    for vnf in ("vnf1.1", "vnf1.2"):
        passed = [replicas[vnf][key] for key in ("packets_in", "packets_out")]
        checks.equal(f"{vf}: in and out of {vnf}", passed, [sent, sent])
        port = one["counters"]["ports"][f"{vnf}:vf"]
        checks.equal(f"{vf}: its port", [port["rx_packets"], port["tx_packets"]], [sent, sent])
        if port.get("device_rx") is not None:
            checks.equal(
                f"{vf}: its virtual function", [port["device_rx"], port["device_tx"]], [sent, sent]
            )
    checks.that(f"{vf}: the wire saw none of it", wire < sent // 10, wire)
    times = one["anatomy"] or {}
    checks.that(f"{vf}: time inside the VNFs is known", times.get("vnf_ns", 0) > 0, times)


def gone(checks: Checks, when: str, pf: str) -> None:
    left = [functions(PF), namespaces(), state()]
    checks.equal(f"{when}: virtual functions, namespaces, state", left, [0, [], []])
    checks.that(f"{when}: the NIC is down, as it was", not is_up(pf))


def rates(pf: str) -> list[int]:
    """What each function may send, in Mbit/s."""
    shown = subprocess.run(["ip", "-j", "link", "show", "dev", pf], capture_output=True, check=True)
    return [vf["rate"]["max_tx"] for vf in json.loads(shown.stdout)[0].get("vfinfo_list", ())]


def with_licence(file: Path) -> Path:
    file.write_text(file.read_text().replace("{kind: process,", f"{{kind: process, {LICENCE},"))
    return file


def there_before(pf: str) -> dict[int, tuple[str, int]]:
    """Its functions: interfaces, and what they are held to."""
    files = sorted((Path("/sys/bus/pci/devices") / PF).glob("virtfn*/net/*"))
    names = {int(file.parent.parent.name.removeprefix("virtfn")): file.name for file in files}
    return {number: (names.get(number, ""), rate) for number, rate in enumerate(rates(pf))}


def kept(checks: Checks, pf: str, peer: str) -> None:
    """Somebody's functions, one of them held to a rate: VNFs' licences hold meanwhile, and all is
    as it was when the run is over."""
    subprocess.run(["ip", "link", "set", "dev", pf, "up"], check=True)
    (Path("/sys/bus/pci/devices") / PF / "sriov_numvfs").write_text("3")
    until("functions", lambda: all(name for name, _ in there_before(pf).values()))
    until("a carrier", lambda: Path(f"/sys/class/net/{pf}/carrier").read_text().strip() == "1")
    held = ["ip", "link", "set", "dev", pf, "vf", "1", "max_tx_rate", str(OTHERS_MBPS)]
    subprocess.run(held, check=True)
    before = there_before(pf)
    checks.equal("kept: rates before", [rate for _, rate in before.values()], [0, OTHERS_MBPS, 0])
    seen: set[tuple[int, ...]] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(2.0):
            seen.add(tuple(rates(pf)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        pvvp(checks, pf, peer, "af_packet", file=with_licence(spec("kept", pf, "af_packet")))
    finally:
        over.set()
        watcher.join()
    licences = (0, LICENCE_MBPS, LICENCE_MBPS)
    checks.that("kept: meanwhile the VNFs' functions are licensed", licences in seen, sorted(seen))
    caps = [
        (limit.kind, limit.gbps, limit.dropped)
        for one in Bundle(Path("pvvp-process-af_packet-bundle")).trials()
        if one.phase == "fixed"
        for limit in one.limits
    ]
    checks.equal("kept: the licence in the trial", caps, [("rate-cap", LICENCE_GBPS, 0)])
    checks.equal("kept: functions, names, rates after it", there_before(pf), before)
    checks.equal("kept: namespaces, state after it", [namespaces(), state()], [[], []])
    (Path("/sys/bus/pci/devices") / PF / "sriov_numvfs").write_text("0")
    subprocess.run(["ip", "link", "set", "dev", pf, "down"], check=True)


def killed(checks: Checks, pf: str) -> None:
    """A lab that was killed with all deployed: `headrace clean` takes it away."""
    file = with_licence(spec("killed", pf, "af_packet", "600 s"))
    command = [HEADRACE, "run", str(file), "--out", "killed"]
    with Path("killed.log").open("wb") as log:
        lab = subprocess.Popen(command, stdout=log, stderr=log)
    deployed = until("namespaces", lambda: len(namespaces()) == 3 and functions(PF) == 3)
    checks.that("killed: functions and namespaces were there", deployed)
    licensed = until("licences", lambda: sorted(rates(pf)) == [0, LICENCE_MBPS, LICENCE_MBPS])
    checks.that("killed: the VNFs' functions were licensed, the tester's not", licensed)
    time.sleep(1)
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    checks.equal("killed: headrace clean", headrace("clean").returncode, 0)
    gone(checks, "killed and cleaned", pf)
    again = headrace("clean")
    checks.equal("cleaned again", again.stdout.strip(), "nothing to clean")


def podman_has_images() -> bool:
    """The machine's own images, read-only; what is made of them is kept in memory. False: it has no
    podman, or not the image (tests/vm/run.sh builds it)."""
    if shutil.which("podman") is None:
        return False
    Path("/etc/containers/storage.conf").write_text(STORAGE)
    image = find("headrace").image
    # The first answer is slow, emulated and from a shared folder: the lab waits a minute for it.
    subprocess.run(["podman", "info"], stdout=subprocess.DEVNULL, check=False)
    asked = subprocess.run(["podman", "image", "exists", image], check=False)
    return asked.returncode == 0


def refused(checks: Checks, pf: str) -> None:
    file = spec("many", pf, "af_packet")
    file.write_text(file.read_text().replace("kind: process", "kind: process, chains: 4"))
    done = headrace("run", "many.yaml", "--check")
    checks.that(
        "more functions than the NIC has are refused",
        done.returncode == 2 and "needs 9 virtual functions" in done.stderr,
        done.stderr.strip(),
    )


def two_ports(checks: Checks, pf: str, peer: str) -> None:
    """As many VNFs with two functions each as both have, beside the tester's two: the wire between
    them carries what goes from one port's to the other's."""
    subprocess.run(["ip", "link", "set", "dev", peer, "promisc", "off"], check=True)
    spread(checks, [pf, peer], (2 * VFS - 2) // 2)
    left = [functions(one) for one in (PF, OTHER)]
    checks.equal("two ports: functions, namespaces, state", [left, namespaces(), state()],
                 [[0, 0], [], []])  # fmt: skip


def prepared(checks: Checks) -> tuple[str, str]:
    """The interfaces of the NIC, and of that at the other end of its wire."""
    load("igb", "igbvf", "veth", "vfio-pci")
    # An emulated IOMMU remaps no interrupts: the guest trusts its devices.
    trust = Path("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
    trust.write_text("Y")
    peer = interface(OTHER)
    pf = detected(checks)
    # Up and listening, so that what leaves the switch is counted; nothing of its own is sent.
    Path(f"/proc/sys/net/ipv6/conf/{peer}/disable_ipv6").write_text("1")
    Path(f"/proc/sys/net/ipv6/conf/{pf}/disable_ipv6").write_text("1")
    subprocess.run(["ip", "link", "set", "dev", peer, "up", "promisc", "on"], check=True)
    return pf, peer


def own(checks: Checks, pf: str, peer: str, vf: str, kind: str = "process") -> None:
    """By functions that the run makes."""
    pvvp(checks, pf, peer, vf, kind)
    gone(checks, f"{vf}, {kind}: after it", pf)


def containers(checks: Checks, pf: str, peer: str) -> None:
    if podman_has_images():
        own(checks, pf, peer, "af_packet", "container")
    else:
        print("skipped: containers: podman or its image headrace is missing", flush=True)


def by_vfio(checks: Checks, pf: str, peer: str) -> None:
    own(checks, pf, peer, "vfio")


def by_af_xdp(checks: Checks, pf: str, peer: str) -> None:
    own(checks, pf, peer, "af_xdp")


def refused_and_killed(checks: Checks, pf: str, peer: str) -> None:
    refused(checks, pf)
    killed(checks, pf)


PARTS: dict[str, Callable[[Checks, str, str], None]] = {
    "kept": kept,
    "killed": refused_and_killed,
    "two-ports": two_ports,
    "vfio": by_vfio,
    "af_xdp": by_af_xdp,
    "containers": containers,
}


def main(*parts: str) -> int:
    for unknown in set(parts) - PARTS.keys():
        sys.exit(f"no part '{unknown}'; allowed: {', '.join(PARTS)}")
    checks = Checks()
    pf, peer = prepared(checks)
    for name in parts or PARTS:
        began = time.monotonic()
        PARTS[name](checks, pf, peer)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
