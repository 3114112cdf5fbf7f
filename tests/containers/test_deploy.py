# SPDX-License-Identifier: Apache-2.0
"""Real appliances in real containers: a chain that works, errors that are named, kills cleaned up.

Needs root, podman and built images (`headrace vnf build`). HEADRACE_KILLS: how many runs are
killed, at moments drawn at random.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]
VNFS = ("nat", "ip-firewall", "l7-cache", "l4-lb", "ids", "traffic")


def _missing() -> str | None:
    if os.geteuid():
        return "containers need root"
    if shutil.which("podman") is None:
        return "podman is not installed"
    from headrace.testbed.containers.runtime import has_image
    from headrace.testbed.vnf import catalogue

    lacking = [name for name in VNFS if not has_image(catalogue()[name].image)]
    return f"images are not built: `headrace vnf build {' '.join(lacking)}`" if lacking else None


_WHY = _missing()
pytestmark = pytest.mark.skipif(_WHY is not None, reason=str(_WHY))

CHAIN = """
name: test
deployment: {{hosting: container, network: [{network}]}}
chain: [nat, ids, ip-firewall, l7-cache, l4-lb]
workload: {{kind: http, duration: 1 s}}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """State of its own, so that `clean` sees only what this test made."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}


def run(spec: str, tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "spec.yaml"
    file.write_text(spec)
    return subprocess.run(
        [*HEADRACE, "run", str(file), "--out", str(tmp_path / "bundle"), "--json"],
        capture_output=True, text=True, timeout=400, env=environment, check=False,
    )  # fmt: skip


def ours() -> set[str]:
    """Containers, namespaces and links that a run may have made."""
    listing = ["podman", "ps", "--all", "--format", "{{.Names}}"]
    containers = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()
    folders = (Path("/run/netns"), Path("/sys/class/net"))
    names = [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]
    # hr and four digits: the tag of a run; others' names may begin with hr, too.
    return {name for name in (*containers, *names) if re.match(r"hr[0-9a-f]{4}[-a-z]|ovs-", name)}


def processes() -> set[str]:
    """Daemons that a run may have started, by command line."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        name = text.split(" ")[0].rpartition("/")[2]
        own_container = re.search(r" -n hr[0-9a-f]{4}-", text) or " run --detach --name hr" in text
        if name in ("ovs-vswitchd", "ovsdb-server") or (
            name in ("conmon", "podman") and own_container
        ):
            found.add(f"{process.name} {text}")
    return found


@pytest.mark.parametrize("network", ["bridge", "ovs"])
def test_a_chain_of_five(tmp_path: Path, environment: dict[str, str], network: str) -> None:
    if network == "ovs" and not shutil.which("ovs-vsctl"):
        pytest.skip("Open vSwitch is not installed")
    before = ours()
    done = run(CHAIN.format(network=network), tmp_path, environment)
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    findings: dict[str, dict[str, Any]] = {f["check"]: f for f in result["audit"]["findings"]}
    assert {"path", "content", "nat: translated", "l7-cache: hits", "ids: alerts"} <= set(findings)
    findings.pop("other work")  # what else runs beside a test is not the chain's fault
    assert all(finding["ok"] for finding in findings.values()), findings
    assert 0.2 < findings["l7-cache: hits"]["value"] < 0.8  # half of the requests are repeated
    assert result["application"]["requests"] > 0
    assert result["application"]["errors"] == 0
    assert ours() <= before


def test_a_vnf_that_fails_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    before = ours()
    spec = CHAIN.format(network="bridge") + (
        "vnfs: {nat: {parameters: {ports: 99999-99999}}}\nbaseline: false\n"
    )
    done = run(spec, tmp_path, environment)
    assert done.returncode == 1
    assert "VNF nat: ended at its start" in done.stderr
    assert "Traceback" not in done.stderr
    assert ours() <= before


def test_an_image_that_is_not_there_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    before = ours()
    done = run(
        "name: t\ndeployment: {hosting: container}\n"
        "appliances: {mine: {kind: routed, image: localhost/headrace/none:0}}\nchain: [mine]\n",
        tmp_path, environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert "localhost/headrace/none:0" in done.stderr
    assert "Traceback" not in done.stderr
    assert ours() <= before


def test_killed_runs_leave_nothing_after_clean(tmp_path: Path, environment: dict[str, str]) -> None:
    before, daemons = ours(), processes()
    generator = random.Random(int(os.environ.get("HEADRACE_SEED", "1")))
    file = tmp_path / "spec.yaml"
    file.write_text(CHAIN.format(network="ovs"))
    for number in range(int(os.environ.get("HEADRACE_KILLS", "2"))):
        arguments = ["run", str(file), "--out", str(tmp_path / f"killed-{number}")]
        with subprocess.Popen(
            [*HEADRACE, *arguments], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as victim:  # fmt: skip
            time.sleep(generator.uniform(1, 12))
            victim.send_signal(signal.SIGKILL)
        subprocess.run([*HEADRACE, "clean"], env=environment, check=True, timeout=120)
        assert ours() <= before, f"kill {number}"
        assert processes() <= daemons, f"kill {number}"
    again = [*HEADRACE, "clean"]
    text = subprocess.run(again, env=environment, check=True, capture_output=True, text=True).stdout
    assert "nothing to clean" in text
