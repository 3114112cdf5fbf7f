# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.counts_testdata import counts
from headrace.errors import BadInput, HeadraceError
from headrace.ground.wired.devices import (
    no_interfaces,
    resolve,
    with_devices,
    without_sockets,
)
from headrace.host.plumbing import KernelInterface, interfaces_here
from headrace.spec import document
from headrace.spec.testbed import Device, Testbed


def bed(device: str, **dut: Any) -> Testbed:
    ports = {"left": {"device": device}}
    return Testbed.model_validate({"ports": ports, "tester": "left", "dut": dut or "external"})


def doc(trusted: bool = True) -> document.Document:
    text = "name: x\ntestbed:\n  ports:\n    left: {device: x}\n  dut: {start: [x]}\n"
    return dataclasses.replace(document.parse(text, Path("x.yaml")), trusted=trusted)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("af_xdp:none0", "x.yaml:4: testbed.ports.left.device: there is no interface none0"),
        ("none0", "there is no interface none0"),
        ("lo", "lo is no PCI device.*allowed: af_xdp:lo, af_packet:lo"),
        ("ffff:ff:1f.7", "there is no PCI device ffff:ff:1f.7"),
    ],
)
def test_what_this_machine_lacks(device: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        resolve(bed(device), doc())


def test_a_point_is_skipped_for_a_port_that_is_not_there() -> None:
    """Another server's ports, and what is no testbed at all, are not this machine's to miss."""

    def lacking(**port: str) -> str | None:
        return no_interfaces({"testbed": {"ports": {"left": port}, "tester": "left",
                                          "dut": "external"}})  # fmt: skip

    assert str(lacking(device="af_xdp:none0")).startswith("there is no interface none0; allowed: ")
    assert lacking(device="tap:none0") is None
    assert lacking(device="af_xdp:none0", server="there") is None
    assert lacking(device="nonsense:") is None
    assert no_interfaces({}) is None


@pytest.mark.parametrize(
    ("one", "place"),
    [
        (bed("tap:t", start=["rm"]), "testbed.dut.start"),
        (bed("tap:t", configure=[["rm"]]), "testbed.dut.configure"),
        (bed("tap:t", read="rm"), "testbed.dut.read"),
        (bed("vhost:/run/x"), "testbed.ports.left.device"),
    ],
)
def test_a_strangers_bundle_runs_and_writes_nothing(one: Testbed, place: str) -> None:
    with pytest.raises(BadInput, match=rf"{place}: .*allowed: with --trust"):
        resolve(one, doc(trusted=False))
    assert resolve(one, doc()).keys() == {"left"}


@pytest.mark.parametrize("kind", ["memif", "vhost", "virtio_user"])
@pytest.mark.parametrize(
    ("outer", "inner", "strange"),
    [(0o755, 0o755, ""), (0o1777, 0o700, ""), (0o755, 0o1777, "inner"), (0o777, 0o755, "outer")],
)
def test_nobody_else_may_be_at_a_sockets_other_end(
    tmp_path: Path, kind: str, outer: int, inner: int, strange: str
) -> None:
    """DPDK's drivers believe whoever is."""
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "outer").chmod(outer)
    folder.chmod(inner)
    wanted = bed(f"{kind}:{folder}/s")
    if not strange:
        assert resolve(wanted, doc()).keys() == {"left"}
        return
    with pytest.raises(BadInput, match=f"other users can put a socket into [^ ]*/{strange}, "):
        resolve(wanted, doc())


def test_a_sockets_folder_is_there() -> None:
    with pytest.raises(BadInput, match="there is no folder /none; allowed"):
        resolve(bed("memif:/none/s"), doc())


def test_a_socket_is_removed_only_where_nobody_listens(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(HeadraceError, match=r"testbed\.ports\.left: somebody listens at"):
            without_sockets({"left": Device("vhost", str(path))})
        assert path.is_socket()
    without_sockets({"left": Device("vhost", str(path))})
    assert not path.exists()
    path.write_text("no socket")
    without_sockets({"left": Device("memif", str(path))})
    assert path.exists()


def test_who_listens_and_takes_nobody_holds_nobody(tmp_path: Path) -> None:
    """Who calls a listener whose queue is full would wait, and nobody has to take from it."""
    path, waiting = tmp_path / "s", list[socket.socket]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(0)
        while not waiting or waiting[-1].connect_ex(str(path)) == 0:
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            waiting[-1].setblocking(False)
        with pytest.raises(HeadraceError, match="somebody listens at"):
            without_sockets({"left": Device("memif", str(path))})
    for one in waiting:
        one.close()


@pytest.mark.parametrize("carrier", [True, False])
def test_a_link_without_carrier_is_not_up(carrier: bool) -> None:
    """DPDK's drivers of the kernel's interfaces call it up, and the first packets are lost."""
    links = {name: {"type": "port", "up": True, "rx_packets": 5} for name in ("left", "right")}
    read = counts({"links": links, "workers": {}})
    kernel = {"e0": KernelInterface(7, 9, 700, 900, carrier=carrier)}
    devices = {"left": Device("af_packet", "e0"), "right": Device("pci", "0000:01:00.0")}
    seen = with_devices(read, devices, kernel)
    assert [seen.port(name).up for name in ("left", "right")] == [carrier, True]
    device = seen.port("left").device
    assert device is not None and (device.rx_packets, device.tx_packets) == (7, 9)


def test_carriers_are_the_kernels() -> None:
    """Told by netlink as sysfs tells them, which refuses to for an interface that is down."""
    for name, one in interfaces_here().items():
        try:
            carrier = Path(f"/sys/class/net/{name}/carrier").read_text().strip() == "1"
        except OSError:
            carrier = False
        if name == "lo" or name.startswith("eth"):
            assert one.carrier == carrier
