# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is named in one line, the rest is cleaned up, and the exit status is not 0."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.containers import lacking, ours, run

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
REPO = Path(__file__).resolve().parents[2]
_NO_TOOL = lacking()
_NO_BASE = lacking(base=True)
_NO_TRAFFIC = lacking("traffic", "nat")


def _spec(chain: str, hosting: str = "") -> str:
    more = f", {hosting}" if hosting else ""
    return f"name: test\nchain: [{chain}]\ndeployment: {{hosting: {{kind: appliances{more}}}}}\n"


@pytest.mark.skipif(_NO_TRAFFIC is not None, reason=str(_NO_TRAFFIC))
def test_a_vnf_that_fails_to_start(tmp_path: Path) -> None:
    before = ours()
    done = run(tmp_path, _spec("nat", "vnfs: {nat: {parameters: {ports: 99999-99999}}}"))
    assert done.returncode == 1
    assert "VNF nat: ended at its start" in done.stderr
    assert "Traceback" not in done.stderr
    assert ours() <= before


@pytest.mark.skipif(_NO_TRAFFIC is not None, reason=str(_NO_TRAFFIC))
def test_a_vnf_that_never_gets_healthy(tmp_path: Path) -> None:
    before = ours()
    done = run(
        tmp_path,
        _spec(
            "mine",
            "images: {mine: {kind: routed, image: 'debian:bookworm-slim', "
            "command: [sleep, infinity], health: [test, -e, /nowhere], health_timeout_s: 2}}",
        ),
    )
    assert done.returncode == 1
    assert "VNF mine: not healthy after 2 s" in done.stderr
    assert ours() <= before


@pytest.mark.skipif(_NO_TRAFFIC is not None, reason=str(_NO_TRAFFIC))
def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    before = ours()
    done = run(
        tmp_path,
        _spec("mine", "images: {mine: {kind: routed, image: 'localhost/headrace/none:0'}}"),
    )
    assert done.returncode == 1
    assert "localhost/headrace/none:0" in done.stderr
    assert "Traceback" not in done.stderr
    assert ours() <= before


@pytest.mark.skipif(_NO_BASE is not None, reason=str(_NO_BASE))
def test_an_image_that_cannot_be_built(tmp_path: Path) -> None:
    vnfs = tmp_path / "vnfs"
    for name in ("traffic", "nat"):
        shutil.copytree(REPO / "vnfs" / name, vnfs / name)
    file = vnfs / "nat" / "Containerfile"
    file.write_text("FROM debian:bookworm-slim\nRUN echo no such package >&2; exit 7\n")
    before = ours()
    done = run(tmp_path, _spec("nat"), HEADRACE_VNFS=str(vnfs))
    assert done.returncode == 1
    assert "VNF nat: its image cannot be built" in done.stderr
    assert "exit status 7" in done.stderr
    assert "Traceback" not in done.stderr
    assert ours() <= before


@pytest.mark.skipif(_NO_TOOL is not None, reason=str(_NO_TOOL))
def test_an_address_that_somebody_has(tmp_path: Path) -> None:
    before = ours()
    done = run(
        tmp_path,
        _spec("mine", "images: {mine: {kind: routed, image: x, addresses: {up: 198.18.0.10}}}"),
    )
    assert done.returncode == 2
    assert "mine: got 198.18.0.10; address clash: client has it" in done.stderr
    assert ours() <= before


@pytest.mark.skipif(os.geteuid() != 0, reason="capabilities of root")
@pytest.mark.skipif(_NO_TOOL is not None, reason=str(_NO_TOOL))
def test_a_capability_that_the_machine_does_not_grant(tmp_path: Path) -> None:
    from headrace.ground.appliances.feasible import capabilities

    granted = capabilities(Path("/proc/self/status").read_text())
    absent = {"SYS_RESOURCE", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT"} - granted
    if not absent:
        pytest.skip("this machine grants every capability")
    one = sorted(absent)[0]
    done = run(
        tmp_path,
        _spec("mine", f"images: {{mine: {{kind: routed, image: x, capabilities: [{one}]}}}}"),
    )
    assert done.returncode == 1
    assert f"VNF mine: needs the capability CAP_{one}" in done.stderr
    assert "Traceback" not in done.stderr
