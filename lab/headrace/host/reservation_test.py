# SPDX-License-Identifier: Apache-2.0
"""Runs at the same time reserve hugepages and give them back without taking each other's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.traffic import refusal
from headrace.errors import HeadraceError
from headrace.host import hugepages
from headrace.host.reservation import provide
from headrace.host.state import RunState, claimed_kb
from headrace.spec import document
from headrace.spec.deployment import Deployment
from headrace.spec.study import expand

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("own_state")]

WANTED = Deployment.model_validate({"memory_mb": 512})  # 288 pages of 2 MB with what DPDK needs

UP_AND_DOWN = """
import sys
from pathlib import Path
from headrace.host.hugepages import add, give_back, locked
control = Path(sys.argv[1])
for _ in range(50):
    with locked(control):
        add(1, control)
    with locked(control):
        give_back(control, 0, 1, True)
"""

CLAIM = """
import sys
from headrace.host.state import RunState
RunState().claim(2048)
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files in the kernel's form, with 300 free pages: the machine's own are not for a test."""
    monkeypatch.setattr(hugepages, "_SYS", tmp_path)
    monkeypatch.setattr(hugepages, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(
        "HugePages_Total: 300\nHugePages_Free: 300\nHugePages_Rsvd: 0\nHugepagesize: 2048 kB\n"
    )
    file = tmp_path / "hugepages-2048kB" / "nr_hugepages"
    file.parent.mkdir()
    file.write_text("300\n")
    return file


def test_two_at_once_lose_no_page(control: Path) -> None:
    command = [sys.executable, "-c", UP_AND_DOWN, str(control)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert hugepages.count(control) == 300


@pytest.mark.skipif(os.geteuid() != 0, reason="only root adds hugepages")
def test_free_pages_are_promised_once(control: Path) -> None:
    first, second = RunState(), RunState()
    assert "300 were free" in provide(WANTED, first).note
    assert "276 added" in provide(WANTED, second).note
    assert hugepages.count(control) == 576
    first.remove()
    assert hugepages.count(control) == 576  # it found its pages there
    second.remove()
    assert hugepages.count(control) == 300


@pytest.mark.skipif(os.geteuid() != 0, reason="only root adds hugepages")
def test_pages_of_vnfs_apart_are_reserved_beside_the_engines(control: Path) -> None:
    state = RunState()
    assert "96 added" in provide(WANTED, state, 216).note  # 396 pages in all
    assert claimed_kb(RunState()) == (512 + 64 + 216) << 10
    state.remove()
    assert hugepages.count(control) == 300


def test_vnfs_insist_on_theirs(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their plans say so: there is nothing to fall back to."""
    monkeypatch.setattr(hugepages, "may_add", lambda _: False)
    monkeypatch.setattr(hugepages, "WAIT_S", 0.0)
    asked = Deployment.model_validate({"memory_mb": 600})
    assert not provide(asked, RunState()).hugepages
    with pytest.raises(HeadraceError, match=r"^deployment\.hosting\.hugepages: true, but "):
        provide(asked, RunState(), 72)


def test_a_claim_ends_with_its_run() -> None:
    own = RunState()
    own.claim(4096)
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "claimed"
        assert claimed_kb(own) == 2048
        other.kill()
    assert claimed_kb(own) == 0


def test_what_the_machine_lacks_is_not_the_specs_fault() -> None:
    doc = document.parse("name: c\nchain: [acl]\n", Path("c.yaml"))
    [experiment] = expand(doc)
    text = refusal("engine", "DPDK does not start", experiment, doc)
    assert type(text) is HeadraceError
    assert str(text) == "engine: DPDK does not start"
    assert "c.yaml" in str(refusal("engine.memory_mb", "too small", experiment, doc))


def test_a_device_is_the_networks() -> None:
    doc = document.parse("name: c\nchain: [acl]\n", Path("c.yaml"))
    [experiment] = expand(doc)
    text = str(refusal("links.wire0.params.devargs", "no such device", experiment, doc))
    assert "deployment.network: wire0: no such device" in text
    rate = str(refusal("links.gen-forward.params.frame_bytes", "too many", experiment, doc))
    assert "workload.frame: too many" in rate


HOLD = """
import mmap, sys
pages = mmap.mmap(-1, int(sys.argv[1]) << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
pages[0] = 1
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root adds hugepages")
def test_who_has_them_is_named_and_waited_for() -> None:
    """With real pages, which the kernel gives one process and takes back when it ends."""
    pages = hugepages.pool()
    assert pages is not None
    with hugepages.locked(pages.control):
        came = hugepages.add(2, pages.control)
    try:
        assert came == 2
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            assert f"process {holder.pid} (python" in hugepages.whose()
            assert hugepages.in_use_kb(holder.pid) == pages.page_kb
            free = hugepages.pool()
            assert free is not None
            wanted = (free.free + 1) * free.page_kb // 1024
            assert not hugepages.wait_for(wanted, 0.3)
            holder.kill()
            assert hugepages.wait_for(wanted)
            assert str(holder.pid) not in hugepages.whose()
    finally:
        with hugepages.locked(pages.control):
            hugepages.give_back(pages.control, 0, came, True)
