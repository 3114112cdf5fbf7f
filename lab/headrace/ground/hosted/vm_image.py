# SPDX-License-Identifier: Apache-2.0
"""The guests' root file system: the engine, the libraries and drivers it uses, the kernel's modules
and one script. Made here, kept by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.ground.hosted.vm_cpio import Archive
from headrace.ground.hosted.vm_kernel import Kernel, cache_folder
from headrace.host.programs import BUILT, LIBRARIES, find, find_engine

ENGINE = "/bin/headrace-engine"
PLAN = "/headrace/plan.json"
READY = "headrace-guest: ready"  # on the console, when the script has done its part
_KEPT = 4  # images of engines that were built before
_MODULES = {
    "common": ("virtio_pci", "virtio_console"),
    "virtio": ("uio_pci_generic",),
    "vfio": ("vfio_pci", "vfio_iommu_type1"),
    "af_packet": ("virtio_net",),
}
_OPTIONAL = ("virtio", "vfio")  # not every kernel has what they need
_DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_virtio", "net_af_packet")
# Of virtual functions of Intel's 82576 to its 700 and 800 series, of Broadcom's NetXtreme-C and -E,
# and of Amazon's. Mellanox's stay with a driver of the kernel's, which a guest has not.
_FUNCTION_DRIVERS = ("net_e1000", "net_ixgbe", "net_iavf", "net_bnxt", "net_ena")
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x")
_CPU_INFO = Path("/proc/cpuinfo")

CONTROL = "/dev/vport0p1"
_FIRST_SLOT = 3  # of network devices on the PCI bus, one behind the other
INIT = f"""#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The guest's first and only process beside the engine.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
chmod 755 / # DPDK loads nothing from below a folder that anybody may write to
mkdir -p /dev/hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
pci=/sys/bus/pci
load() {{
	while read -r module; do
		insmod "/modules/$module.ko" || echo "headrace-guest: module $module does not load"
	done <"/modules/$1"
}}
for word in $(cat /proc/cmdline); do
	case $word in
	headrace.driver=*) driver=${{word#*=}} ;;
	headrace.nics=*) nics=$(echo ${{word#*=}} | tr , ' ') ;;
	esac
done
case $driver in
virtio) binds=uio_pci_generic ;;
vfio) binds=vfio-pci ;; # a function has no interrupt line, which uio_pci_generic wants
*) binds= ;;
esac
# Before the bus driver comes: it would give the devices to the kernel's network driver.
if [ $binds ]; then
	for nic in $nics; do echo $binds >$pci/devices/$nic/driver_override; done
fi
load common
load $driver
# The guest's IOMMU remaps no interrupts. That of the host does.
[ $driver != vfio ] || echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts
if [ $binds ]; then
	for nic in $nics; do
		[ ! -e $pci/devices/$nic/driver ] || echo $nic >$pci/devices/$nic/driver/unbind
		echo $nic >$pci/drivers_probe
	done
else
	echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
	for nic in $nics; do
		ip link set "$(basename $pci/devices/$nic/virtio*/net/*)" promisc on up
	done
fi
tries=0
while [ ! -e {CONTROL} ] && [ $tries -lt 200 ]; do
	tries=$((tries + 1))
	usleep 50000
done
ulimit -l unlimited
echo "{READY}: $(uname -r), up $(cut -d ' ' -f 1 /proc/uptime) s, $driver by" \\
	"$(basename "$(readlink -f $pci/devices/$nic/driver)")"
headrace-engine --plan {PLAN} --control {CONTROL}
echo "headrace-guest: the engine ended with status $?"
poweroff -f
"""


def slot(face: int) -> int:
    """Where a VNF's interface, counted from 0, is on its guest's PCI bus."""
    return _FIRST_SLOT + face


def address(face: int) -> str:
    return f"0000:00:{slot(face):02x}.0"


def driver_of(kernel: Kernel, wanted: str) -> str:
    """How guests reach their device: DPDK's driver needs the kernel to let go of it."""
    if wanted == "af_packet":
        return wanted
    if wanted == "vfio":
        if not all(kernel.has(module) for module in _MODULES["vfio"]):
            raise HeadraceError(
                f"deployment.network: sriov, but kernel {kernel.release} has no "
                f"{_MODULES['vfio'][0]} for its guests; run `scripts/setup.sh vm`"
            )
        return wanted
    if all(kernel.has(module) for module in _MODULES["virtio"]):
        return "virtio"
    if wanted == "virtio":
        raise HeadraceError(
            f"deployment.hosting.vm.driver: virtio, but kernel {kernel.release} has no "
            f"{_MODULES['virtio'][0]}; allowed: auto, af_packet"
        )
    return "af_packet"


def guest_engine(accel: str) -> Path:
    """The engine that guests run. Emulation has no AVX-512: an engine built for a CPU that has it
    would end there with an illegal instruction, and one for all CPUs takes its place."""
    portable = BUILT / "vm" / "engine" / "headrace-engine"
    if os.environ.get("HEADRACE_VM_ENGINE") or (accel == "tcg" and os.access(portable, os.X_OK)):
        return find("headrace-engine", [portable], "", variable="HEADRACE_VM_ENGINE")
    engine = find_engine()
    if accel == "tcg" and "avx512f" in _CPU_INFO.read_text():
        version = subprocess.run(
            [engine, "--version"], capture_output=True, errors="replace"
        ).stdout
        if "-march=native" in version:
            raise HeadraceError(
                f"{engine}: built for this CPU, with instructions that emulation does not have; "
                "run `scripts/setup.sh vm`, which builds one for all CPUs, or name one in "
                "HEADRACE_VM_ENGINE"
            )
    return engine


def build(engine: Path, kernel: Kernel, driver: str) -> Path:
    """The image's file; made when there is none of this content yet."""
    drivers = (*_DRIVERS, *_FUNCTION_DRIVERS) if driver == "vfio" else _DRIVERS
    files = {**_files(engine, drivers), **_modules(kernel), "/init": INIT.encode()}
    digest = hashlib.sha256()
    for path, content in sorted(files.items()):
        raw = content if isinstance(content, bytes) else f"-> {content}".encode()
        digest.update(f"{path}\0{len(raw)}\0".encode() + raw)
    target = cache_folder() / f"guest-{digest.hexdigest()[:16]}.cpio"
    if target.exists():
        os.utime(target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as out:
        archive = Archive(out)
        for folder in ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/run"):
            archive.directory(folder)
        for path, content in files.items():
            if isinstance(content, bytes):
                archive.file(path, content, 0o644 if path.startswith("/modules/") else 0o755)
            else:
                archive.link(path, str(content))
        archive.end()
    unfinished.replace(target)
    _forget_old(target.parent)
    return target


def _forget_old(folder: Path) -> None:
    images = sorted(folder.glob("guest-*.cpio"), key=lambda f: f.stat().st_mtime, reverse=True)
    for file in images[_KEPT:]:
        file.unlink(missing_ok=True)


def _files(engine: Path, wanted: Iterable[str]) -> dict[str, bytes | Path]:
    """Contents, and links to them: a library under two names is one, or DPDK would have its drivers
    twice."""
    libraries = _libraries(engine)
    core = next((file for file in libraries if file.name.startswith("librte_eal.so")), None)
    drivers = [_driver(core, name) for name in wanted] if core is not None else []
    for driver in drivers:
        libraries |= _libraries(driver)
    files: dict[str, bytes | Path] = {
        ENGINE: engine.read_bytes(),
        "/bin/busybox": _busybox().read_bytes(),
    }
    for file in sorted(libraries | set(drivers)):
        real = file.resolve()
        if real.parent == LIBRARIES:  # a package's engine looks for them at this depth below itself
            files[f"/{LIBRARIES.name}/{real.name}"] = real.read_bytes()
            continue
        files[str(real)] = real.read_bytes()
        if real != file:
            files[str(file)] = real
    return files


def _driver(core: Path, name: str) -> Path:
    """DPDK loads what is in a folder beside it, by its full version's name."""
    for folder in dict.fromkeys((core.resolve().parent, core.parent)):
        drivers = sorted(folder.glob(f"dpdk/pmds-*/librte_{name}.so.*.*"))
        if drivers:
            return drivers[-1]
    raise HeadraceError(f"{core.parent}: DPDK's driver librte_{name} is missing; install it")


def _libraries(program: Path) -> set[Path]:
    """What it is linked with, the loader included, by the paths at which it is looked for."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, errors="replace", check=False)
    if "not found" in done.stdout:
        lines = [line.strip() for line in done.stdout.splitlines() if "not found" in line]
        raise HeadraceError(f"{program}: {lines[0]}")
    return {Path(m[1]) for line in done.stdout.splitlines() if (m := _LIBRARY.match(line))}


def _busybox() -> Path:
    named = shutil.which("busybox")
    if named is None or _libraries(Path(named)):
        raise HeadraceError(
            "busybox: no static one found; run `scripts/setup.sh vm` or install busybox-static"
        )
    return Path(named)


def _modules(kernel: Kernel) -> dict[str, bytes]:
    files = {}
    for group, wanted in _MODULES.items():
        if not all(kernel.has(module) for module in wanted) and group in _OPTIONAL:
            files[f"/modules/{group}"] = b""
            continue
        order = kernel.load_order(wanted)
        files[f"/modules/{group}"] = "".join(f"{name}\n" for name in order).encode()
        files |= {f"/modules/{name}.ko": content for name, content in order.items()}
    return files


def own_part(plan: str, files: Iterable[str], out: Path) -> None:
    """What one guest has for itself: its plan, and the files it names, where the plan says."""
    with out.open("ab") as file:
        archive = Archive(file)
        archive.file(PLAN, plan.encode())
        for one in files:
            archive.file(one, Path(one).read_bytes())
        archive.end()
