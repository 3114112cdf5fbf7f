# SPDX-License-Identifier: Apache-2.0
"""Advice on a real path: what it changes, what it does to packets, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.analyse.diff import diff
from headrace.errors import HeadraceError
from headrace.ground.contract import Offer
from headrace.host import settings
from headrace.host.ledger import Ledger
from headrace.host.settings import Setting, cpu_mask
from headrace.record.bundle import Bundle
from headrace.record.figures import ApplicationFigures
from headrace.record.rows import Result
from headrace.record.verdict import Audit
from headrace.report.tune import document, sentences
from headrace.tune.advice import ALL, Advice, Situation
from headrace.tune.discover import discover
from headrace.tune.gains import Advised, Considered, Tuned, TuneOutput, read
from headrace.tune.ground import Joined, Rig, Tried, applied, waiting_fragments_bytes
from headrace.tune.path import BRIDGE_NF, ServerPath, build
from headrace.tune.path import cpus as usable_cpus
from headrace.tune.program import find_shortcut
from headrace.tune.seen import Seen
from headrace.tune.shortcut import Shortcut
from headrace.tune.wish import BASELINE, PROTOCOLS, Protocol
from support.lab import command

pytestmark = [pytest.mark.beside, pytest.mark.needs_root]

NAMES = {a.name: a for a in ALL}
SIZE = 65507
OFFER = Offer("any", None, paced=False)
needs_ethtool = pytest.mark.skipif(
    shutil.which("ethtool") is None, reason="ethtool is not installed"
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Rig]:
    ledger, tag = Ledger(tmp_path), f"hrtt{os.getpid() % 100000}"
    yield Rig(ledger, tmp_path, tag, lambda _: None, tuple(usable_cpus()), SIZE)
    ledger.undo()


@pytest.fixture
def path(run: Rig) -> ServerPath:
    return build(run.tag, run.ledger)


def seen(run: Rig, path: ServerPath, protocol: Protocol, tried: Tried | None = None) -> Seen:
    """A run of a fifth of a second, as the session has them."""
    joined = Joined(run, path, protocol, tried)
    try:
        joined.start(OFFER, 0, 0.2)
        joined.wait()
    finally:
        joined.close()
    return joined.seen


@pytest.fixture
def shortcut() -> None:
    try:
        find_shortcut()
    except HeadraceError as why:
        pytest.skip(str(why))


def situation(run: Rig, path: ServerPath, protocol: Protocol) -> Situation:
    return Situation(path, protocol, seen(run, path, protocol), run.cpus, SIZE)


def concentrated(s: Situation, share: float = 0.9) -> Situation:
    """As a longer run shows it: in a fifth of a second the clock ticks too rarely to say."""
    softirq_s = {f"cpu{c}": 0.1 for c in s.cpus} | {f"cpu{s.cpus[0]}": share}
    cores = {core: {"softirq_us": round(value * 1e6)} for core, value in softirq_s.items()}
    return replace(s, before=replace(s.before, grown={**s.before.grown, **cores}))


def state(path: ServerPath) -> dict[str, object]:
    """The state of all that any advice changes."""
    values: dict[str, object] = {}
    for namespace, device in path.devices():
        values[f"{device}@{namespace}"] = (
            settings.offloads(namespace, device) if shutil.which("ethtool") else {},
            settings.run(
                namespace,
                ["sh", "-c", 'cd "/sys/class/net/$1" && cat mtu threaded queues/*/rps_cpus || true',
                 "sh", device],
            ),
        )  # fmt: skip
    values["netfilter"] = Setting(namespace=path.namespace, target=BRIDGE_NF, value="").read()
    return values


def test_masks_are_as_the_kernel_reads_them() -> None:
    assert cpu_mask([]) == "00000000"
    assert cpu_mask([0, 3]) == "00000009"
    assert cpu_mask([33]) == "00000002,00000000"


@needs_ethtool
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_is_detected_applied_and_undone(
    run: Rig, path: ServerPath, protocol: Protocol
) -> None:
    s = concentrated(situation(run, path, protocol))
    before, applied_to = state(path), set()
    for advice in ALL:
        verdict = advice.applies(s)
        assert verdict.why
        if not verdict.applies:
            continue
        applied_to.add(advice.name)
        changes = advice.changes(s)
        with applied(changes, run.ledger):
            for change in changes:
                assert change.read().lstrip("0,") == change.value.lstrip("0,"), change.text
            assert (state(path) != before) == bool(changes)
        assert state(path) == before, advice.name
    assert applied_to >= {"jumbo-mtu", "redirect-peer", "redirect-xdp"}
    assert ("udp-gso" in applied_to) == (protocol == "udp")


def test_softirqs_that_are_spread_need_no_spreading(run: Rig, path: ServerPath) -> None:
    s = situation(run, path, "udp")
    if len(run.cpus) < 2:
        pytest.skip("there is one CPU only")
    for name in ("rps", "threaded-napi"):
        assert NAMES[name].applies(concentrated(s)).applies
        assert not NAMES[name].applies(concentrated(s, 0.1)).applies
    (first, second) = NAMES["rps"].changes(concentrated(s))
    others = cpu_mask([c for c in run.cpus[1:]])
    assert first.value == second.value == others


def test_no_run_begins_with_fragments_that_another_left(run: Rig, path: ServerPath) -> None:
    """They would take the memory that its own need: nothing arrives for half a minute."""
    script = (
        "import socket, sys\n"
        "from scapy.layers.inet import IP\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n"
        "for i in range(500):\n"
        "    first = IP(dst=sys.argv[1], id=i, proto=17, flags='MF') / bytes(1000)\n"
        "    s.sendto(bytes(first), (sys.argv[1], 0))\n"
    )
    settings.run(path.sender.namespace, [sys.executable, "-c", script, path.receiver.address])
    assert waiting_fragments_bytes(path) > 500_000
    afresh = run.afresh(path)
    assert waiting_fragments_bytes(afresh) == 0
    assert seen(run, afresh, "udp").gbps > 0


def test_fragments_are_found_and_jumbo_frames_end_them(run: Rig, path: ServerPath) -> None:
    """NfvInsight figure 19: cut, put together on the bridge, cut again, put together once more."""
    s = situation(run, path, "udp")
    assert s.before.grown["server"]["fragments"] >= 45
    assert s.before.grown["receiver"]["fragments"] >= 45
    for name in ("jumbo-mtu", "bridge-netfilter-off", "udp-gso"):
        assert NAMES[name].applies(s).applies
    grown = (whole := seen(run, path, "udp", (NAMES["jumbo-mtu"], s))).grown
    assert (grown["server"]["fragments"], grown["receiver"]["fragments"]) == (0, 0)
    assert whole.packet_bytes > SIZE
    assert grown["receiver"]["compared"] and not grown["receiver"]["wrong"]
    grown = seen(run, path, "udp", (NAMES["bridge-netfilter-off"], s)).grown
    assert grown["server"]["fragments"] == 0 and grown["receiver"]["fragments"] >= 45


@pytest.mark.usefixtures("shortcut")
@needs_ethtool
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["redirect-peer", "redirect-xdp", "af-xdp"])
def test_the_shorter_way_is_taken_and_right(
    run: Rig, path: ServerPath, protocol: Protocol, name: str
) -> None:
    s = situation(run, path, protocol)
    verdict = NAMES[name].applies(s)
    if name == "af-xdp" and not verdict.applies:
        pytest.skip(verdict.why)
    grown = (short := seen(run, path, protocol, (NAMES[name], s))).grown
    redirected = grown["shortcut"]["redirected"]
    assert redirected and redirected >= grown["sender"]["packets"] > 0
    assert grown["server"]["fragments"] == 0  # the bridge saw none of it
    assert short.gbps > 0 and grown["receiver"]["compared"] > 0
    assert grown["receiver"]["wrong"] == 0
    assert grown["receiver"]["checksum_errors"] == grown["server"]["checksum_errors"] == 0


@pytest.mark.usefixtures("shortcut")
@needs_ethtool
def test_checksums_left_to_a_device_would_be_found(run: Rig, path: ServerPath) -> None:
    """What redirect-xdp changes is needed: with checksum offload on, the receiver finds errors."""
    small = replace(run, message_bytes=1000)
    seen(small, path, "udp")
    changes = [
        c for c in NAMES["redirect-xdp"].changes(situation(run, path, "udp"))
        if "receive-offload" in c.target
    ]  # fmt: skip
    for station in path.stations:
        assert settings.offloads(station.namespace, station.device)["tx-checksumming"] == "on"
    before = _checksum_errors(path)
    with applied(changes, run.ledger), Shortcut(path, "xdp"):
        seen(small, path, "udp")
    if _checksum_errors(path) == before:
        pytest.skip("this kernel keeps the offloaded checksum's state over XDP_REDIRECT")


def test_frames_of_af_xdp_are_one_page(run: Rig, path: ServerPath) -> None:
    s = situation(run, path, "udp")
    with applied(NAMES["jumbo-mtu"].changes(s), run.ledger):
        verdict = NAMES["af-xdp"].applies(s)
    assert not verdict.applies and "65535" in verdict.why


def test_a_path_of_the_users_own_is_found(path: ServerPath) -> None:
    """Names, a path and a process's number stand for a namespace; found is what was made."""
    a, b, server = (Path(n).name for n in (path.sender.namespace, path.receiver.namespace,
                                           path.namespace))  # fmt: skip
    discovered = discover(a, path.receiver.namespace, server)
    assert discovered == path.model_copy(update={"own": True})
    with subprocess.Popen(["ip", "netns", "exec", b, "sleep", "60"]) as there:
        try:
            end = time.monotonic() + 20
            while (
                Path(f"/proc/{there.pid}/ns/net").stat().st_ino
                != Path(path.receiver.namespace).stat().st_ino
            ):
                assert time.monotonic() < end
                time.sleep(0.05)
            of_process = discover(a, str(there.pid), server)
        finally:
            there.kill()
    assert (of_process.receiver.mac, of_process.receiver.port) == (
        path.receiver.mac, path.receiver.port,
    )  # fmt: skip


def test_what_is_no_such_path_is_said(path: ServerPath) -> None:
    a, server = Path(path.sender.namespace).name, Path(path.namespace).name
    with pytest.raises(HeadraceError, match=r"--to: .*without a router"):
        discover(a, server, server)
    with pytest.raises(HeadraceError, match="--bridge-namespace names the one"):
        discover(a, path.receiver.namespace, "")
    settings.run(path.namespace, ["ip", "link", "set", path.receiver.port, "nomaster"])
    with pytest.raises(HeadraceError, match=f"{path.receiver.port} is on no bridge"):
        discover(a, path.receiver.namespace, server)


@needs_ethtool
def test_it_tries_advice_on_a_users_own_path(
    tmp_path: Path, path: ServerPath, shortcut: None
) -> None:
    before = state(path)
    ends = [f"--{o}={Path(n).name}" for o, n in (
        ("from", path.sender.namespace), ("to", path.receiver.namespace),
        ("bridge-namespace", path.namespace),
    )]  # fmt: skip
    done = command(
        ("tune", "--json", "--rounds", "1", "--seconds", "0.2", "--protocol", "udp",
         "--advice", "jumbo-mtu", "--advice", "redirect-peer", "--out", tmp_path / "o", *ends),
        tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = TuneOutput.model_validate_json(done.stdout)
    assert result.path == path.model_copy(update={"own": True})
    assert [(r.repetition, r.execution) for r in result.results] == [
        (1, BASELINE), (1, "jumbo-mtu"), (1, "redirect-peer"),
    ]  # fmt: skip
    assert "as it was found" in (tmp_path / "o/report.html").read_text()
    assert state(path) == before


def _checksum_errors(path: ServerPath) -> int:
    text = settings.run(path.receiver.namespace, ["cat", "/proc/net/snmp"])
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    return int(values[names.index("InCsumErrors")])


@needs_ethtool
def test_a_killed_run_is_undone_by_clean(tmp_path: Path) -> None:
    """On a path of the host's: a namespace would take its settings with it."""
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    name = f"hrtk{os.getpid() % 100000}"
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"],
                   check=True)  # fmt: skip
    mtu = Path(f"/sys/class/net/{name}/mtu")
    script = (
        "import time\n"
        "from headrace.host.ledger import Ledger\n"
        "from headrace.host.settings import Setting\n"
        "from headrace.host.state import RunState\n"
        "from headrace.tune.ground import applied\n"
        f"s = Setting(namespace='', target='{mtu}', value='9000')\n"
        "with applied([s], Ledger(RunState().path)):\n"
        "    time.sleep(60)\n"
    )
    try:
        p = subprocess.Popen([sys.executable, "-c", script], env=env)
        end = time.monotonic() + 30
        while mtu.read_text().strip() != "9000":
            assert time.monotonic() < end and p.poll() is None
            time.sleep(0.02)
        p.send_signal(signal.SIGKILL)
        p.wait()
        assert mtu.read_text().strip() == "9000"
        assert command(("clean",), tmp_path, env).returncode == 0
        assert mtu.read_text().strip() == "1500"
    finally:
        subprocess.run(["ip", "link", "del", name], check=False)


def test_the_command_writes_its_report(tmp_path: Path, shortcut: None) -> None:
    out = tmp_path / "out"
    done = command(
        ("tune", "--json", "--rounds", "2", "--seconds", "0.2", "--protocol", "udp",
         "--advice", "redirect-peer", "--out", out),
        tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = TuneOutput.model_validate_json(done.stdout)
    tuned = read(Bundle(out))
    assert tuned is not None and result == tuned.output(out)
    # In turns: each round has the run with it and the one without.
    assert [(r.repetition, r.execution) for r in result.results] == [
        (1, BASELINE), (1, "redirect-peer"), (2, "redirect-peer"), (2, BASELINE),
    ]  # fmt: skip
    assert all(r.audit.verdict != "not-audited" for r in result.results)
    assert {g.advice for g in tuned.gains()} == {"redirect-peer"}
    assert "redirect-peer" in (out / "report.html").read_text()
    for station in result.path.stations:
        assert not Path(station.namespace).exists()
    refused = command(("run", out, "--check"), tmp_path)
    assert refused.returncode == 2 and "bundle of `headrace tune`" in refused.stderr
    again = command(("run", out, "--out", tmp_path / "again"), tmp_path, timeout=300)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again/spec.yaml").read_text() == (out / "spec.yaml").read_text()
    differences = diff(Bundle(out), Bundle(tmp_path / "again"))
    assert {one.key.execution for one in differences.compared} == {BASELINE, "redirect-peer"}
    assert not differences.only_a and not differences.only_b
    assert not [one for one in differences.differences if one.where == "spec"]


@pytest.mark.parallel
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--advice", "pray"], ["--advice", "'pray'", "rps"]),
        (["--rounds", "0"], ["--rounds"]),
        (["--bytes", "70000"], ["--bytes", "65507"]),
        (["--protocol", "sctp"], ["--protocol", "sctp"]),
        (["--out", "/etc"], ["--out", "'/etc'", "new"]),
        (["--from", "nowhere-here"], ["--from", "'nowhere-here'", "ip netns"]),
        (["--from", "/proc/self/ns/net"], ["--to", "''", "ip netns"]),
        (["--bridge-namespace", "x"], ["--bridge-namespace", "'x'", "--from and --to"]),
    ],
)
def test_bad_input(tmp_path: Path, options: list[str], named: list[str]) -> None:
    done = command(("tune", *options), tmp_path)
    assert done.returncode == 2, done.stderr
    assert all(n in done.stderr for n in named), done.stderr
    assert "Traceback" not in done.stderr


def result(advice: str, number: int, gbps: float, checksum_errors: int = 0) -> Result:
    application = ApplicationFigures(
        gbps=gbps,
        counters={"receiver": {"checksum_errors": checksum_errors, "compared": 1, "wrong": 0}},
    )
    return Result(
        chain="x", direction="forward", repetition=number, execution=advice, workload="tcp, any",
        goal="max", load_pps=0, throughput_pps=1, throughput_gbps_l1=gbps, throughput_gbps_l2=gbps,
        offered_pps=1, sent_pps=1, received_pps=1, loss_ratio=0, application=application,
        audit=Audit(verdict="ok"),
    )  # fmt: skip


def test_a_gain_is_of_pairs_and_of_sound_runs_only(path: ServerPath) -> None:
    """A machine that slows down between rounds changes no gain; wrong data are no gain at all."""
    rounds = [(1, 10.0, 13.0), (2, 5.0, 6.5), (3, 1.0, 1.3)]
    results = [r for n, a, b in rounds for r in (result(BASELINE, n, a), result("rps", n, b))]
    rps = Considered(advice="rps", finding="spread", protocol="tcp", applies=True, why="x")
    advised = Advised(cpus=(0,), message_bytes=1, seconds=1, path=path, considered=(rps,))
    several = Tuned(advised, tuple(results))
    (gain,) = several.gains()
    assert gain.median == pytest.approx(0.3) and gain.rounds == 3 and gain.helps
    assert any("median of 3 rounds, +30% to +30%" in s for s in sentences(several))
    once = Tuned(advised, tuple(results[:2]))
    assert any("+30% (one round: its spread is not known)" in s for s in sentences(once))
    assert not any("median" in s for s in sentences(once))
    [table] = document(once).sections[0].tables
    assert [row.cells[3] for row in table.lines] == ["1", "1"]
    spoilt = (*results[:-1], result("rps", 3, 1.3, checksum_errors=1))
    (gain,) = Tuned(advised, spoilt).gains()
    assert not gain.sound and not gain.helps


def test_each_advice_has_a_finding_and_a_name_of_its_own() -> None:
    assert len(NAMES) == len(ALL)
    assert {a.finding for a in ALL} == {"spread", "whole", "short"}
    assert all(isinstance(a, Advice) and a.__doc__ for a in ALL)


def test_the_ledger_notes_before_it_changes(tmp_path: Path, path: ServerPath) -> None:
    ledger = Ledger(tmp_path / "x")
    ledger.path.parent.mkdir()
    target = f"/sys/class/net/{path.bridge}/mtu"
    change = Setting(namespace=path.namespace, target=target, value="4000")
    with applied([change], ledger):
        (line,) = ledger.path.read_text().splitlines()
        assert json.loads(json.loads(line)["name"])["value"] == "1500"
    assert change.read() == "1500"
