# SPDX-License-Identifier: Apache-2.0
"""Virtual machines without starting one: archives, modules, the command line, the guest's plan."""

from __future__ import annotations

import io
import lzma
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.engine.plan_document import Plan
from headrace.errors import BadInput, HeadraceError
from headrace.ground.hosted import vm_accel, vm_image, vm_kernel, vm_plan, vm_qemu
from headrace.ground.hosted.parts import Face, Vnf
from headrace.ground.hosted.vm import VnfMachine
from headrace.ground.hosted.vm_confined import Handed, confined
from headrace.ground.hosted.vm_cpio import Archive
from headrace.ground.hosted.vm_kernel import Kernel, find_kernel
from headrace.host.programs import LIBRARIES, find_engine
from headrace.spec.hosting import Hosting
from headrace.spec.vm import ApplianceVm

FACES = (Face("vf", 1, 1, "/r/v1/vf.sock"), Face("right", 2, 2, "/r/v1/right.sock"))
PLAN = Plan.model_validate(
    {
        "version": 1,
        "engine": {
            "hugepages": False,
            "memory_mb": 64,
            "mbufs": 4096,
            "wait": {"mode": "adaptive"},
        },
        "links": {"vf": {"type": "shm", "params": {"socket": "/r/v1/vf.sock"}}},
        "nfs": {},
        "segments": [{"name": "vnf1.1", "cpus": [7], "inputs": [{"link": "vf", "to": "x"}]}],
    }
)


def vnf(faces: tuple[Face, ...] = FACES[:1]) -> Vnf:
    return Vnf("vnf1.1", faces, ("x",), (7,), PLAN)


def test_archive_is_read_by_others(tmp_path: Path) -> None:
    if not shutil.which("cpio"):
        pytest.skip("no cpio to read it with")
    out = io.BytesIO()
    archive = Archive(out)
    archive.file("/a/b/one", b"1" * 5, 0o755)
    archive.file("/a/two", b"")
    archive.directory("/a/b")  # there already
    archive.link("/a/three", "/a/two")
    archive.end()
    assert len(out.getvalue()) % 512 == 0
    subprocess.run(["cpio", "-i", "--quiet", "-d"], input=out.getvalue(), cwd=tmp_path, check=True)
    assert (tmp_path / "a/b/one").read_bytes() == b"11111"
    assert stat.S_IMODE((tmp_path / "a/b/one").stat().st_mode) == 0o755
    assert (tmp_path / "a/two").read_bytes() == b""
    names = subprocess.run(["cpio", "-t", "--quiet"], input=out.getvalue(), capture_output=True)
    assert names.stdout.decode().split() == ["a", "a/b", "a/b/one", "a/two", "a/three"]
    assert (tmp_path / "a/three").readlink() == Path("/a/two")


@pytest.mark.parametrize("path", ["relative", "/a/../b"])
def test_archive_has_absolute_paths(path: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        Archive(io.BytesIO()).file(path, b"")


def a_kernel(root: Path, **modules: str) -> Kernel:
    """Modules as the kernel's are: what they depend on is a string among others in them."""
    folder = root / "lib/modules/6.1.0-x"
    (folder / "kernel").mkdir(parents=True)
    for name, depends in modules.items():
        content = b"\x7fELF\0license=GPL\0depends=" + depends.encode() + b"\0name=x\0"
        if name.endswith("_xz"):
            file = folder / "kernel" / f"{name.removesuffix('_xz')}.ko.xz"
            file.write_bytes(lzma.compress(content))
        else:
            (folder / "kernel" / f"{name.replace('_', '-')}.ko").write_bytes(content)
    (folder / "modules.builtin").write_text("kernel/drivers/virtio/virtio.ko\n")
    (root / "boot").mkdir()
    (root / "boot/vmlinuz-6.1.0-x").write_bytes(b"")
    return Kernel(root / "boot/vmlinuz-6.1.0-x", folder)


def test_modules_in_order(tmp_path: Path) -> None:
    kernel = a_kernel(
        tmp_path, virtio_pci="virtio,virtio-ring", virtio_ring="", virtio_net_xz="virtio_ring"
    )
    assert list(kernel.load_order(["virtio_net", "virtio_pci"])) == [
        "virtio_ring", "virtio_net", "virtio_pci"
    ]  # fmt: skip
    assert kernel.has("virtio") and not kernel.has("uio")
    with pytest.raises(HeadraceError, match=r"has no module uio_pci_generic; run .scripts/setup"):
        kernel.load_order(["uio_pci_generic"])


def test_driver_follows_the_kernel(tmp_path: Path) -> None:
    bare = a_kernel(tmp_path / "bare")
    able = a_kernel(tmp_path / "able", uio="", uio_pci_generic="uio")
    assert vm_image.driver_of(able, "auto") == "virtio"
    assert vm_image.driver_of(able, "af_packet") == "af_packet"
    assert vm_image.driver_of(bare, "auto") == "af_packet"
    with pytest.raises(HeadraceError, match=r"driver: virtio, but kernel 6.1.0-x has no uio_pci"):
        vm_image.driver_of(bare, "virtio")
    with_vfio = a_kernel(tmp_path / "c", vfio_pci="vfio", vfio="", vfio_iommu_type1="vfio")
    with pytest.raises(HeadraceError, match=r"sriov, but kernel 6.1.0-x has no vfio_pci for its"):
        vm_image.driver_of(able, "vfio")
    assert vm_image.driver_of(with_vfio, "vfio") == "vfio"


def test_kernel_is_found_or_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_VM_KERNEL", str(tmp_path))
    with pytest.raises(BadInput, match=r"HEADRACE_VM_KERNEL: got .*; allowed: a folder with boot"):
        find_kernel()
    a_kernel(tmp_path)
    assert find_kernel().release == "6.1.0-x"
    monkeypatch.delenv("HEADRACE_VM_KERNEL")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    monkeypatch.setattr(vm_kernel, "OWN_ROOT", tmp_path / "empty")
    with pytest.raises(HeadraceError, match=r"no kernel for virtual machines: run .scripts/setup"):
        find_kernel()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("echo 'Kernel panic - not syncing'", None),
        ("echo 'could not access KVM' >&2; exit 1", "a guest under KVM ended: could not access"),
        ("exec sleep 60", "a guest under KVM hung for 0.5 s"),
    ],
)
def test_kvm_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, problem: str | None
) -> None:
    """What becomes of it is what QEMU shows; here a script in its place."""
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text(f"#!/bin/sh\n[ $1 != --version ] || exec echo v\necho >>{tmp_path}/n\n{line}\n")
    qemu.chmod(0o755)
    kvm = tmp_path / "kvm"
    kvm.touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vm_accel, "_KVM", kvm)
    monkeypatch.setattr(vm_accel, "_TRIAL_S", 0.5)
    kernel = a_kernel(tmp_path)
    for _ in range(2):
        accel = vm_accel.choose_accel("auto", kernel)
        assert accel.name == ("tcg" if problem else "kvm")
        assert (problem or "") in accel.why
    assert (tmp_path / "n").read_text() == "\n"
    assert bool(accel.emulated) == (accel.name == "tcg")
    if problem:
        with pytest.raises(HeadraceError, match=r"vm.accel: kvm, but a guest under KVM"):
            vm_accel.choose_accel("kvm", kernel)
    kvm.unlink()
    assert "no" in vm_accel.choose_accel("auto", kernel).why


def machine(**more: object) -> vm_qemu.GuestMachine:
    usual: dict[str, object] = {
        "name": "headrace-vnf1.1", "accel": "tcg", "vcpus": 2, "memory_mb": 384,
        "boot": vm_qemu.Linux(Path("/k"), Path("/i"), "quiet"), "queue": 512,
        "nics": tuple(vm_qemu.GuestNic(f.mac, Path(f.socket)) for f in FACES),
        "console": Path("/r/console"),
    }  # fmt: skip
    return vm_qemu.GuestMachine(**(usual | more))  # type: ignore[arg-type]


def test_command_line() -> None:
    words = vm_qemu.command(Path("/q"), machine(control=5))
    text = " ".join(words)
    assert "-accel tcg,thread=multi" in text and "-cpu max" in text
    assert "memory-backend-memfd,id=ram,size=384M,share=on -kernel /k" in text
    assert "socket,id=control,fd=5" in text
    assert "socket,id=c1,path=/r/v1/right.sock" in text
    assert "netdev=n0,mac=02:68:72:00:00:01,addr=0x3," in text
    assert "netdev=n1,mac=02:68:72:00:00:02,addr=0x4," in text
    assert text.count("rx_queue_size=512,tx_queue_size=512") == 2
    assert "hugetlb" not in text and "hostfwd" not in text
    assert [vm_image.address(i) for i in (0, 1)] == ["0000:00:03.0", "0000:00:04.0"]


def test_command_line_behind_a_bridge_and_a_nic() -> None:
    nics = (
        vm_qemu.GuestNic("02:68:72:00:00:01", Path("/r/s"), tap=7),
        vm_qemu.GuestNic("02:68:72:00:00:02", Path("/r/s"), tap=8, vhost=True, vhostfd=6),
        vm_qemu.GuestNic("02:68:72:00:00:03", Path("/r/s"), function="0000:41:10.2"),
    )
    text = " ".join(vm_qemu.command(Path("/q"), machine(nics=nics)))
    assert (
        "-netdev tap,id=n0,fd=7,vhost=off" in text and "tap,id=n1,fd=8,vhost=on,vhostfd=6" in text
    )
    assert text.count("rx_queue_size=512,tx_queue_size=256") == 2
    assert "-device vfio-pci,host=0000:41:10.2,addr=0x5" in text
    assert "vhost-user" not in text and "netdev=n2" not in text


def test_command_line_of_an_image() -> None:
    disk = vm_qemu.Disk(Path("/a,b.qcow2"), "qcow2")
    words = vm_qemu.command(
        Path("/q"),
        machine(accel="kvm", boot=None, disk=disk, hugepages=True, node=1, forwards=((40022, 22),),
                told=(("mac", "02:00"),)),
    )  # fmt: skip
    text = " ".join(words)
    assert "-accel kvm -cpu host" in text
    assert "hugetlb=on,prealloc=on,host-nodes=1,policy=bind" in text
    assert "snapshot=on" in text and "format=qcow2,file=/a,,b.qcow2" in text
    assert "hostfwd=tcp:127.0.0.1:40022-:22" in text
    assert "name=opt/headrace/mac,string=02:00" in text
    assert "-kernel" not in words and "id=control" not in text


def test_qemu_is_given_its_files_open(tmp_path: Path) -> None:
    """No path of the host's is left in its command, and each descriptor is of the file that it
    stands for."""
    (tmp_path / "kernel").write_text("kernel")
    (tmp_path / "disk").write_text("disk")
    with socket.socket(socket.AF_UNIX) as host:
        host.bind(str(tmp_path / "s"))
        host.listen()
        nics = (vm_qemu.GuestNic("02:68:72:00:00:01", tmp_path / "s"),)
        given = machine(
            nics=nics, boot=vm_qemu.Linux(tmp_path / "kernel", None, ""),
            disk=vm_qemu.Disk(tmp_path / "disk", "raw"), console=tmp_path / "console",
        )  # fmt: skip
        handed = Handed()
        try:
            words = vm_qemu.command(Path("/q"), handed.machine(given, tmp_path / "scratch"))
            assert str(tmp_path) not in " ".join(words)
            kernel = words[words.index("-kernel") + 1]
            assert Path(kernel).read_text() == "kernel"
            [console, disk] = [w for o, w in pairwise(words) if o == "-add-fd"]
            os.write(int(console.split("=")[1].split(",")[0]), b"said")
            assert (tmp_path / "console").read_text() == "said"
            assert os.read(int(disk.split("=")[1].split(",")[0]), 9) == b"disk"
            [chardev] = [w for o, w in pairwise(words) if o == "-chardev"]
            with socket.socket(socket.AF_UNIX) as joined:
                joined.connect(chardev.split("path=")[1])
                host.accept()[0].close()
        finally:
            handed.close()


def test_qemu_is_led_to_no_other_socket(tmp_path: Path) -> None:
    (tmp_path / "s").symlink_to("/dev/null")
    nics = (vm_qemu.GuestNic("02:68:72:00:00:01", tmp_path / "s"),)
    handed = Handed()
    with pytest.raises(HeadraceError, match="s: is no socket"):
        handed.machine(machine(nics=nics, boot=None, console=tmp_path / "c"), tmp_path / "scratch")
    handed.close()


def test_qemu_has_no_rights(tmp_path: Path) -> None:
    """Whoever starts it: what is asserted of root is asserted where root runs the tests."""
    status = ["cat", "/proc/self/status"]
    done = subprocess.run(
        confined(status, machine(), tmp_path / "pid"), capture_output=True, text=True, check=True
    )
    told = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    assert told["NoNewPrivs"] == "1" and (tmp_path / "pid").read_text().strip() == told["Pid"]
    if os.geteuid() == 0:
        assert set(told["Uid"].split()) == {str(0x78000000 + int(told["Pid"]))}
        assert {told[f"Cap{one}"] for one in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
        assert told["Groups"].strip() == ""


@pytest.mark.parametrize(
    ("driver", "devargs", "pci"),
    [
        ("virtio", "0000:00:03.0", ["0000:00:03.0"]),
        ("vfio", "0000:00:03.0", ["0000:00:03.0"]),
        ("af_packet", "net_af_packet0,iface=eth0,", None),
    ],
)
def test_guest_plan(driver: str, devargs: str, pci: list[str] | None) -> None:
    hosting = Hosting.model_validate({"kind": "vm", "slots": 256, "vm": {"vcpus": 2}})
    plan = vm_plan.guest_plan(vnf(), PLAN, hosting, driver)
    params = plan.links["vf"].params
    assert plan.links["vf"].type == "port"
    assert params["devargs"].startswith(devargs) and params["rx_descriptors"] == 256
    assert params["promiscuous"] is (driver != "vfio")
    assert plan.engine.hugepages is True and plan.engine.pci == (pci and tuple(pci))
    assert plan.segments[0].cpus == (1,)
    assert PLAN.segments[0].cpus == (7,)
    words = vm_plan.arguments(hosting, driver, 1, "tcg")
    assert f"headrace.driver={driver}" in words and "headrace.nics=0000:00:03.0" in words
    assert "mitigations=off" in words
    assert "mitigations" not in vm_plan.arguments(hosting, driver, 1, "kvm")


def test_too_little_memory_for_the_files(tmp_path: Path) -> None:
    hosting = Hosting.model_validate({"kind": "vm", "vm": {"memory_mb": 256}})
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"")
    with large.open("wb") as file:
        file.truncate(200_000_000)
    vm_plan.check_room("vnf1.1", hosting, small)
    with pytest.raises(BadInput, match=r"vm.memory_mb: got 256; vnf1.1 needs 544: .*twice the 200"):
        vm_plan.check_room("vnf1.1", hosting, large)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "vm", "wait": "interrupt"}, "allowed with `kind: vm`: poll, adaptive"),
        ({"kind": "vm", "slots": 64}, "slots: 64; allowed with `kind: vm`: 256, 512 or 1024"),
        ({"kind": "process", "vm": {"vcpus": 2}}, "`vm` belongs to `kind: vm`"),
        ({"kind": "vm", "vm": {"memory_mb": 128, "accel": "tcg"}}, "vm.memory_mb: 128; allowed"),
        ({"kind": "vm", "vm": {"accel": "xen"}}, "'auto', 'kvm' or 'tcg'"),
        ({"kind": "vm", "vm": {"vcpus": 0}}, "greater than or equal to 1"),
    ],
)
def test_spec_is_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hosting.model_validate(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to start; allowed: `image`, a disk, or `kernel`"),
        ({"image": "a", "initrd": "b"}, "`initrd` belongs to a `kernel`"),
        ({"image": "a", "health": {}}, "allowed: {console: REGULAR EXPRESSION}, {tcp: PORT}"),
        ({"image": "a", "health": {"console": "("}}, "allowed: a regular expression"),
        ({"image": "a", "rate_cap_gbps": 0}, "greater than 0"),
    ],
)
def test_an_appliance_is_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ApplianceVm.model_validate(given)


def test_guests_have_drivers_of_many_nics_functions() -> None:
    """With all libraries that these are linked with, by the names at which the loader looks."""
    try:
        engine = find_engine()
    except HeadraceError as why:
        pytest.skip(str(why))
    files = vm_image._files(engine, vm_image._FUNCTION_DRIVERS)
    drivers = [path for path in files if "librte_net_" in path]
    for name in ("e1000", "ixgbe", "iavf", "bnxt", "ena"):
        [driver, *_] = [path for path in drivers if f"librte_net_{name}.so" in path]
        if not driver.startswith(f"/{LIBRARIES.name}/"):  # a package brings its own
            assert {str(one) for one in vm_image._libraries(Path(driver))} <= files.keys()


class _Threads:
    """A process whose threads have QEMU's names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        text = "import sys,threading,ctypes\n"
        text += "c=ctypes.CDLL(None)\n"
        text += "def f(n):\n c.prctl(15,n.encode()); b.wait(); threading.Event().wait()\n"
        text += f"b=threading.Barrier({len(names) + 1})\n"
        text += "[threading.Thread(target=f,args=(n,),daemon=True).start() for n in sys.argv[1:]]\n"
        text += "b.wait(); print(flush=True); sys.stdin.read()\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def affinities(self) -> dict[str, set[int]]:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return {(t / "comm").read_text().strip(): os.sched_getaffinity(int(t.name)) for t in tasks}


@pytest.mark.parametrize("left", [True, False])
def test_threads_of_a_machine_that_are_no_vcpu_are_off_all_lcores(left: bool) -> None:
    """Where CPUs are left over; else they stay where they are."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        pytest.skip("one CPU")
    machine = object.__new__(VnfMachine)
    threads = _Threads(("CPU 0/TCG", "call_rcu"))
    try:
        machine._process = threads.process
        machine._common = SimpleNamespace(  # type: ignore[assignment]
            apart=frozenset(here[1:2] if left else ())
        )
        machine.vnf = Vnf("vnf1", (), (), (here[0],), None, vcpus=((here[0],),))
        machine._pin()
        others = {here[1]} if left else set(here)
        seen = threads.affinities()
        assert seen["CPU 0/TCG"] == {here[0]} and seen["call_rcu"] == others
        assert {name for name, cpus in seen.items() if cpus == {here[0]}} == {"CPU 0/TCG"}
    finally:
        threads.process.kill()
        threads.process.wait()
