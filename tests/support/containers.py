# SPDX-License-Identifier: Apache-2.0
"""Runs of the command line with real containers, and what they may have left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headrace.host.tool import installed
from support.lab import runtime_dir

HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
_RUN_S = 400
TAG = 6  # letters: hr and four digits
# Containers and namespaces; bridges, macvlan's parents, ports, a switch. Other tests' names begin
# alike.
_OWN = re.compile(r"hr[0-9a-f]{4}(-.+|[bmnp][0-9]+|o)")


def lacking(*vnfs: str, base: bool = False) -> str | None:
    """Why these VNFs cannot be run here, and what mends it."""
    from headrace.ground.appliances.images import has_image
    from headrace.ground.catalogue import catalogue
    from headrace.ground.hosted.container import no_containers
    from headrace.host.tool import BASE_IMAGE

    if (why := no_containers()) is not None:
        return f"no containers: {why}"
    missing = [name for name in vnfs if not has_image(catalogue()[name].image)]
    if missing:
        return f"images are not built: `make test-containers`, or `headrace vnf build {missing[0]}`"
    if base and not has_image(BASE_IMAGE):
        return "there is no base image: `make test-containers` makes it"
    return None


def environment(folder: Path, **more: str) -> dict[str, str]:
    """State of its own, so that `clean` sees only what this test made."""
    temporary = folder / "t"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ, "XDG_RUNTIME_DIR": str(runtime_dir(folder)), "TMPDIR": str(temporary), **more
    }  # fmt: skip


def headrace(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEADRACE, *arguments], capture_output=True, text=True, timeout=_RUN_S,
        env=environment(folder, **more), cwd=folder, check=False,
    )  # fmt: skip


def run(folder: Path, spec: str, **more: str) -> subprocess.CompletedProcess[str]:
    file = folder / "spec.yaml"
    file.write_text(spec)
    bundle = folder / f"bundle-{len(list(folder.glob('bundle-*')))}"
    return headrace(folder, "run", str(file), "--out", str(bundle), "--json", **more)


def explained(folder: Path) -> list[dict[str, Any]]:
    """What `headrace explain` finds in the last run's bundle."""
    bundle = max(folder.glob("bundle-*"))
    done = headrace(folder, "explain", str(bundle), "--json")
    assert done.returncode == 0, done.stderr
    diagnoses: list[dict[str, Any]] = json.loads(done.stdout)
    return diagnoses


def results(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    all_results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return all_results


def beside_other_work(result: dict[str, Any]) -> bool:
    return any(f["check"] == "other work" and not f["ok"] for f in result["audit"]["findings"])


def findings(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By check; what else runs beside a test is not the chain's fault."""
    apart = {"other work"}
    if beside_other_work(result):
        apart.add("stretched")  # it kept the tester from its CPU
    return {f["check"]: f for f in result["audit"]["findings"] if f["check"] not in apart}


def tags(folder: Path) -> set[str]:
    """The deployments of this test's runs, by their ledgers, which `clean` removes."""
    ledgers = (runtime_dir(folder) / "headrace").glob("run-*/resources.jsonl")
    return set(re.findall(r'"name": "(hr[0-9a-f]{4})', "".join(x.read_text() for x in ledgers)))


def ours() -> set[str]:
    """Containers, namespaces and links that a run may have made, but those of runs of somebody
    else that go on at the same time: their tags are in the machine's own state directory."""
    listed = [one.ask("ps", "--all", "--format", "{{.Names}}").stdout for one in installed()]
    containers = " ".join(listed).split()
    folders = (Path("/run/netns"), Path("/sys/class/net"))
    names = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
    others = _others()
    left = {name for name in (*containers, *names) if _OWN.fullmatch(name)}
    if not _switches():
        left |= {name for name in names if name == "ovs-netdev"}  # its daemon is gone
    return {name for name in left if name[:TAG] not in others}


def _others() -> set[str]:
    ledgers = Path(tempfile.gettempdir()).glob("headrace-*/run-*/resources.jsonl")
    text = "".join(ledger.read_text() for ledger in ledgers if ledger.exists())
    return set(re.findall(r'"name": "(hr[0-9a-f]{4})', text))


def _switches() -> list[str]:
    return [text for text in commands().values() if text.split(" ")[0].endswith("ovs-vswitchd")]


def commands() -> dict[str, str]:
    by_pid = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        by_pid[process.name] = line.decode(errors="replace")
    return by_pid


def processes(folder: Path) -> set[str]:
    """What runs of this test's have left running: daemons of a switch, monitors of containers."""
    others = _others()
    pids = set()
    for pid, text in commands().items():
        name = text.split(" ")[0].rpartition("/")[2]
        tag = re.search(r" (?:-n|--name) (hr[0-9a-f]{4})-", text)
        container = name in ("conmon", "podman") and tag is not None and tag[1] not in others
        switch = name in ("ovs-vswitchd", "ovsdb-server") and str(runtime_dir(folder)) in text
        if container or switch:
            pids.add(f"{pid} {text}")
    return pids
