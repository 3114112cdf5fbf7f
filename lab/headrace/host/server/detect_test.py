# SPDX-License-Identifier: Apache-2.0
"""This machine, against the kernel's other accounts of it; and one with two sockets, as files."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.host.server import detect
from headrace.host.server.sysfs import cpu_list
from headrace.spec.server import Server


def test_this_machine() -> None:
    server = detect()
    assert len(server.cpus) == os.cpu_count()
    assert set(server.usable_cpus) == os.sched_getaffinity(0) & set(server.cpus)
    assert sorted(cpu for core in server.cores for cpu in core.cpus) == sorted(server.cpus)
    assert server.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert Server.model_validate_json(server.model_dump_json()) == server


def put(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def two_sockets(root: Path) -> None:
    """Two nodes of two cores with two threads each (0-3 and 4-7 as the kernel numbers threads
    last), an SR-IOV NIC on node 1 whose second function vfio has."""
    cpu = "sys/devices/system/cpu"
    files = {f"{cpu}/online": "0-7", f"{cpu}/isolated": "2-3,7"}
    for n in range(8):
        node, core = n % 4 // 2, n % 2
        files |= {
            f"{cpu}/cpu{n}/topology/physical_package_id": str(node),
            f"{cpu}/cpu{n}/topology/core_id": str(core),
            f"{cpu}/cpu{n}/cache/index0/level": "1",
            f"{cpu}/cpu{n}/cache/index0/type": "Data",
            f"{cpu}/cpu{n}/cache/index0/size": "48K",
            f"{cpu}/cpu{n}/cache/index0/shared_cpu_list": f"{n % 4},{n % 4 + 4}",
            f"{cpu}/cpu{n}/cache/index3/level": "3",
            f"{cpu}/cpu{n}/cache/index3/type": "Unified",
            f"{cpu}/cpu{n}/cache/index3/size": "33M",
            f"{cpu}/cpu{n}/cache/index3/shared_cpu_list": "0-1,4-5" if node == 0 else "2-3,6-7",
        }
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7")):
        at = f"sys/devices/system/node/node{node}"
        files |= {
            f"{at}/cpulist": cpus,
            f"{at}/distance": "10 21" if node == 0 else "21 10",
            f"{at}/meminfo": f"Node {node} MemTotal: 1024 kB\nNode {node} MemFree: 512 kB",
            f"{at}/hugepages/hugepages-2048kB/nr_hugepages": "8",
            f"{at}/hugepages/hugepages-2048kB/free_hugepages": "3",
        }
    pci = "sys/devices/pci0000:80"
    for address in ("0000:81:00.0", "0000:81:10.0", "0000:82:00.0"):
        files |= {
            f"{pci}/{address}/class": "0x020000",
            f"{pci}/{address}/vendor": "0x8086",
            f"{pci}/{address}/device": "0x1572",
            f"{pci}/{address}/numa_node": "1",
        }
    files[f"{pci}/0000:81:00.0/sriov_totalvfs"] = "7"
    files[f"{pci}/0000:81:00.0/net/ens1/speed"] = "10000"
    files[f"{pci}/0000:82:00.0/class"] = "0x010802"  # a disk
    put(root, files)
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for device in (root / pci).iterdir():
        (bus / device.name).symlink_to(device)
    physical, virtual = (root / pci / a for a in ("0000:81:00.0", "0000:81:10.0"))
    (physical / "virtfn0").symlink_to(virtual)
    (virtual / "physfn").symlink_to(physical)
    driver = root / "sys/bus/pci/drivers/vfio-pci"
    driver.mkdir(parents=True)
    (virtual / "driver").symlink_to(driver)


def test_two_sockets(tmp_path: Path) -> None:
    two_sockets(tmp_path)
    server = detect(tmp_path)
    assert (server.sockets, len(server.cores), server.isolated_cpus) == (2, 4, (2, 3, 7))
    assert server.siblings(1) == (5,)
    assert server.node_of(6) == 1 and server.node_of(5) == 0
    assert [c.size_bytes for c in server.data_caches(4)] == [48 << 10, 33 << 20]
    assert [n.distances for n in server.nodes] == [(10, 21), (21, 10)]
    assert server.nodes[1].memory_bytes == 1 << 20
    [pool] = server.nodes[0].hugepages
    assert (pool.page_bytes, pool.total, pool.free) == (2 << 20, 8, 3)
    physical, virtual = server.nics
    assert physical.interfaces == ("ens1",) and physical.speed_mbps == 10000
    assert physical.vfs == (virtual.address,) and physical.vfs_max == 7 and physical.node == 1
    assert virtual.driver == "vfio-pci" and virtual.physical_function == physical.address


def test_nothing_is_readable(tmp_path: Path) -> None:
    server = detect(tmp_path)
    assert server.cpu is None and server.memory_bytes is None and server.nics == ()


def test_cpu_list() -> None:
    assert cpu_list("0-2,8") == (0, 1, 2, 8)
    assert cpu_list(None) == cpu_list("") == cpu_list("what") == ()
