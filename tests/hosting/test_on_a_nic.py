# SPDX-License-Identifier: Apache-2.0
"""What is refused of VNFs on a real NIC. That they work is tried in a guest (tests/vm)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.host.sriov import physical_functions
from support.lab import headrace, state_left

NO_NIC = "this machine has no NIC with SR-IOV functions (`headrace doctor` says what it has)"


pytestmark = pytest.mark.parallel  # each is refused before anything runs


def spec(hosting: str = "process", network: str = "sriov", more: str = "", frame: int = 128) -> str:
    return f"""
name: on-a-nic
chain: ['null']
deployment:
  hosting: {hosting}
  network: {network}
  {more}
workload: {{frame: [{frame}]}}
measure: {{loads: [1000]}}
"""


def refusal(folder: Path, engine: Path, text: str) -> str:
    (folder / "spec.yaml").write_text(text)
    done = headrace("run", "spec.yaml", "--check", folder=folder, engine=engine)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert state_left(folder) == []
    return done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spec("inline"), "network: sriov joins hosted VNFs; got hosting inline; allowed: process"),
        (spec("{kind: process, vf: vfio}", "veb"), "hosting.vf: belongs to `network: sriov`"),
        (spec(network="veb", more="pf: eth0"), "pf: belongs to `network: sriov`"),
        (spec(more="pf: 'two words'"), "deployment.pf"),
        (spec(more="pf: [eth0, eth1, eth0]"), "pf: eth0, eth1, eth0; allowed: each NIC once"),
        (spec("{kind: process, vf: tap}"), "deployment.hosting.vf"),
        (spec("{kind: container, vf: vfio}"), "allowed with `kind: container`: af_packet"),
        (spec("{kind: vm, vm: {driver: virtio}}"), "allowed with `network: sriov`: auto"),
        (spec("{kind: process, wait: interrupt}"), "drivers of virtual functions are polled"),
        (spec("{kind: process, uplink_gbps: 10}"), "a real NIC has its own limit"),
        (spec(frame=9000), "9000 bytes; allowed with `network: sriov`: at most 1518"),
    ],
)
def test_what_does_not_go_together(
    engine_binary: Path, tmp_path: Path, text: str, message: str
) -> None:
    assert message in refusal(tmp_path, engine_binary, text)


def test_no_such_nic(engine_binary: Path, tmp_path: Path) -> None:
    if physical_functions():
        pytest.skip("this machine has a NIC with virtual functions: make test-vm-sriov uses one")
    problem = refusal(tmp_path, engine_binary, spec())
    assert NO_NIC in problem and "allowed here: veb, vepa" in problem
    assert "deployment.pf: got 'lo'" in refusal(tmp_path, engine_binary, spec(more="pf: lo"))
