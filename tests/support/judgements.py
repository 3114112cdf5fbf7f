# SPDX-License-Identifier: Apache-2.0
"""The scenarios for firewalls: TCP, UDP, ICMP, their errors, and packets that are no good."""

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.packet import Packet, Raw

from support.conversation import SCENARIOS, Family, Step, Tcp, scenario, udp

__all__ = ["SCENARIOS"]


@scenario()
def tcp_opens_talks_and_closes(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40001)
    yield from tcp.opened()
    yield tcp.step("inside", "PA", b"GET / HTTP/1.0\r\n\r\n")
    yield tcp.step("outside", "A")
    yield tcp.step("outside", "PA", b"HTTP/1.0 200 OK\r\n\r\n")
    yield tcp.step("outside", "FA")
    yield tcp.step("inside", "A")
    yield tcp.step("inside", "FA")
    yield tcp.step("outside", "A")


@scenario()
def the_opener_closes_first(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40002)
    yield from tcp.opened()
    yield tcp.step("inside", "FA")
    yield tcp.step("outside", "A")
    yield tcp.step("outside", "PA", b"still talking")
    yield tcp.step("inside", "A")
    yield tcp.step("outside", "FA")
    yield tcp.step("inside", "A")


@scenario()
def tcp_from_outside_to_an_open_port(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40003, 22, opener="outside")
    yield from tcp.opened()
    yield tcp.step("inside", "PA", b"SSH-2.0\r\n")
    yield tcp.step("outside", "PA", b"SSH-2.0\r\n")


@scenario()
def tcp_denied(f: Family) -> Iterator[Step]:
    yield Step(
        "to a forbidden host", "inside",
        f.ip(f.client, f.forbidden) / TCP(sport=40004, dport=80, flags="S"), False,
    )  # fmt: skip
    yield Tcp(f, 40004, 80).step("inside", "S", name="to the lowest port of a range")
    yield Tcp(f, 40004, 90).step("inside", "S", name="to the highest port of a range")
    yield Tcp(f, 40004, 79).step("inside", "S", passes=False, name="to the port below")
    yield Tcp(f, 40004, 91).step("inside", "S", passes=False, name="to the port above")
    yield Tcp(f, 40004, 23, opener="outside").step("outside", "S", passes=False)
    yield Tcp(f, 40004, 80, opener="outside").step("outside", "S", passes=False)


@scenario()
def tcp_in_the_middle(f: Family) -> Iterator[Step]:
    for i, flags in enumerate(("A", "PA", "SA", "FA", "R", "RA")):
        for side in ("inside", "outside"):
            tcp = Tcp(f, 40100 + i, opener="inside")
            yield tcp.step(side, flags, name=f"{flags} of no connection", passes=False)


@scenario()
def tcp_flags_that_nobody_sends(f: Family) -> Iterator[Step]:
    flags = ("", "F", "P", "U", "SF", "SR", "FR", "SFA", "SRA", "FRA", "FSRPAU", "FPU")
    for i, bad in enumerate(flags):
        tcp = Tcp(f, 40200 + i)
        yield tcp.step("inside", bad, name=f"flags {bad or 'none'}, no connection", passes=False)
    tcp = Tcp(f, 40300)
    yield from tcp.opened()
    for bad in flags:
        yield Step(
            f"flags {bad or 'none'} in a connection", "inside",
            Tcp(f, 40300, next=dict(tcp.next)).packet("inside", bad), False,
        )  # fmt: skip
    yield tcp.step("inside", "PA", b"it goes on")


@scenario()
def tcp_syn_again_and_again(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40401)
    start = dict(tcp.next)
    yield tcp.step("inside", "S")
    for _ in range(3):
        tcp.next = dict(start)
        yield tcp.step("inside", "S", name="the same SYN again")
    yield tcp.step("outside", "SA")
    tcp.next["outside"] -= 1
    yield tcp.step("outside", "SA", name="the same SYN-ACK again")
    yield tcp.step("inside", "A")


@scenario()
def tcp_refused(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40402)
    yield tcp.step("inside", "S")
    yield tcp.step("outside", "RA", name="refused")
    yield tcp.step("inside", "S", name="tried again")
    yield tcp.step("outside", "SA")
    yield tcp.step("inside", "A")


@scenario()
def tcp_reset(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40403)
    yield from tcp.opened()
    yield tcp.step("outside", "PA", b"some")
    yield tcp.step("inside", "R")
    tcp.next = {"inside": 900_000, "outside": 700_000}
    yield tcp.step("inside", "S", name="opened again after a reset")
    yield tcp.step("outside", "SA")
    yield tcp.step("inside", "A")


@scenario()
def tcp_of_the_same_ports_after_a_close(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 40404)
    yield from tcp.opened()
    yield tcp.step("inside", "FA")
    yield tcp.step("outside", "FA")
    yield tcp.step("inside", "A")
    tcp.next = {"inside": 900_000, "outside": 700_000}
    yield from tcp.opened()


@scenario()
def tcp_opened_by_both(f: Family) -> Iterator[Step]:
    """RFC 9293 figure 8."""
    tcp = Tcp(f, 40405)
    yield tcp.step("inside", "S")
    yield tcp.step("outside", "S", name="SYN from the other side too")
    tcp.next["inside"] -= 1
    yield tcp.step("inside", "SA")
    tcp.next["outside"] -= 1
    yield tcp.step("outside", "SA")
    yield tcp.step("inside", "PA", b"data")


@scenario()
def tcp_outside_its_window(f: Family) -> Iterator[Step]:
    """headrace does not follow sequence numbers; nftables finds these invalid."""
    tcp = Tcp(f, 40406)
    yield from tcp.opened()
    yield tcp.step("outside", "PA", b"far ahead", ahead=900_000, nftables=False)
    yield tcp.step("outside", "R", ahead=900_000, nftables=False, name="a blind reset")


@scenario()
def udp_asked_and_answered(f: Family) -> Iterator[Step]:
    yield Step("query", "inside", udp(f, "inside", 50001, 53))
    yield Step("answer", "outside", udp(f, "outside", 53, 50001))
    yield Step("query again", "inside", udp(f, "inside", 50001, 53))
    yield Step(
        "from a stranger", "outside", udp(f, "outside", 53, 50001, outside=f.stranger), False
    )
    yield Step("from another port", "outside", udp(f, "outside", 54, 50001), False)
    yield Step("to another port", "outside", udp(f, "outside", 53, 50002), False)


@scenario()
def udp_denied(f: Family) -> Iterator[Step]:
    yield Step("to a port that is not open", "inside", udp(f, "inside", 50003, 54), False)
    yield Step("answer to what was denied", "outside", udp(f, "outside", 54, 50003), False)
    yield Step("unasked", "outside", udp(f, "outside", 53, 50004), False)


@scenario()
def echo(f: Family) -> Iterator[Step]:
    there, back = f.ip(f.client, f.server), f.ip(f.server, f.client)
    yield Step("asked", "inside", there / f.echo(7))
    yield Step("answered", "outside", back / f.echo(7, answer=True))
    yield Step("answered twice", "outside", back / f.echo(7, answer=True))
    yield Step("of another identifier", "outside", back / f.echo(8, answer=True), False)
    yield Step("unasked from outside", "outside", back / f.echo(9), False)
    yield Step("reply to nothing", "inside", there / f.echo(10, answer=True), False)
    yield Step("to a host without a rule", "inside", f.ip(f.client, f.stranger) / f.echo(11), False)


@scenario()
def errors_about_udp(f: Family) -> Iterator[Step]:
    query = udp(f, "inside", 51001, 53)
    unknown = udp(f, "inside", 51002, 53)
    yield Step("query", "inside", query)
    for what in ("port-unreachable", "host-unreachable", "time-exceeded", "parameter-problem"):
        for source in (f.server, f.router):
            yield Step(
                f"{what} by {source}", "outside", f.error(what, bytes(query), source, f.client)
            )
    yield Step(
        "about a flow that is not there", "outside",
        f.error("port-unreachable", bytes(unknown), f.server, f.client), False,
    )  # fmt: skip


@scenario()
def errors_about_tcp(f: Family) -> Iterator[Step]:
    tcp = Tcp(f, 51003)
    yield from tcp.opened()
    large = tcp.packet("inside", "PA", b"x" * 1200)
    yield Step("data", "inside", large)
    yield Step(
        "too big (path MTU discovery)", "outside",
        f.error("packet-too-big", bytes(large), f.router, f.client),
    )  # fmt: skip
    answer = tcp.packet("outside", "PA", b"y" * 100)
    yield Step("answer", "outside", answer)
    yield Step(
        "about the answer, from inside", "inside",
        f.error("time-exceeded", bytes(answer), f.client, f.server),
    )  # fmt: skip


@scenario()
def errors_that_carry_nothing_of_use(f: Family) -> Iterator[Step]:
    query = udp(f, "inside", 51004, 53)
    yield Step("query", "inside", query)
    header = 20 if f.version == 4 else 40
    for size in (0, 4, header // 2, header, header + 2, header + 4):
        yield Step(
            f"{size} bytes of the packet", "outside",
            f.error("port-unreachable", bytes(query)[:size], f.server, f.client), False,
            # Ports are enough for the kernel; RFC 792 and RFC 4443 promise eight bytes.
            nftables=size == header + 4,
        )  # fmt: skip


@scenario()
def another_protocol(f: Family) -> Iterator[Step]:
    def esp(source: str, destination: str) -> Packet:
        packet = f.ip(source, destination)
        packet.setfieldval("proto" if f.version == 4 else "nh", 50)
        return packet / Raw(b"\0\0\x01\0" * 8)

    yield Step("unasked", "outside", esp(f.stranger, f.client), False)
    yield Step("begun inside", "inside", esp(f.client, f.server))
    yield Step("the way back", "outside", esp(f.server, f.client))
    yield Step("from elsewhere", "outside", esp(f.stranger, f.client), False)


@scenario()
def cut_short(f: Family) -> Iterator[Step]:
    """The IP header's length agrees with what is there; the transport header is not all there."""
    for sizes, number, transport in (
        ((0, 4, 12, 19), 6, TCP(sport=52001, dport=80, flags="S")),
        ((0, 4, 7), 17, UDP(sport=52001, dport=53)),
    ):
        for size in sizes:
            packet = f.ip(f.client, f.server)
            packet.setfieldval("proto" if f.version == 4 else "nh", number)
            packet /= Raw(bytes(transport)[:size])
            yield Step(f"{size} bytes of {transport.name}", "inside", packet, False)


@scenario()
def lengths_that_lie(f: Family) -> Iterator[Step]:
    def transport(layer: Packet) -> Packet:
        return f.ip(f.client, f.server) / layer

    for offset in (0, 4, 15):
        yield Step(
            f"TCP data offset {offset}", "inside",
            transport(TCP(sport=52100 + offset, dport=80, flags="S", dataofs=offset)), False,
        )  # fmt: skip
    for length in (0, 4, 7, 200):
        yield Step(
            f"UDP length {length}", "inside",
            transport(UDP(sport=52200 + length, dport=53, len=length) / Raw(b"x" * 20)), False,
        )  # fmt: skip


@scenario(4)
def options(f: Family) -> Iterator[Step]:
    ip = IP(src=f.client, dst=f.server, id=1, ttl=64, options=[IPOption_NOP()] * 8)
    yield Step("SYN behind IP options", "inside", ip / TCP(sport=52301, dport=80, flags="S"))
    yield Step("UDP behind IP options", "inside", ip / UDP(sport=52301, dport=53) / Raw(b"x"))


@scenario(4)
def headers_that_are_wrong(f: Family) -> Iterator[Step]:
    syn = TCP(sport=52401, dport=80, flags="S")
    for name, field, value in (
        ("version 5", "version", 5),
        ("header length 4", "ihl", 4),
        ("total length beyond the frame", "len", 1400),
        ("total length below the header's", "len", 19),
    ):
        packet = f.ip(f.client, f.server)
        packet.setfieldval(field, value)
        yield Step(name, "inside", packet / syn, False)


@scenario()
def checksums_that_are_wrong(f: Family) -> Iterator[Step]:
    """headrace leaves them to the hosts; the kernel drops such packets."""
    syn, query = TCP(sport=52501, dport=80, flags="S"), UDP(sport=52501, dport=53)
    if f.version == 4:
        yield Step(
            "IPv4 header", "inside",
            IP(src=f.client, dst=f.server, id=1, chksum=0x1234) / syn, True, nftables=False,
        )  # fmt: skip
    for layer in (syn.copy(), query.copy()):
        layer.setfieldval("chksum", 0x1234)
        yield Step(
            layer.name, "inside", f.ip(f.client, f.server) / layer / Raw(b"x"), True, nftables=False
        )


@scenario(4)
def redirects(f: Family) -> Iterator[Step]:
    """RFC 1812 section 5.2.7.2: a redirect is for the host on this very link, never forwarded."""
    query = udp(f, "inside", 51010, 53)
    yield Step("query", "inside", query)
    redirect = f.ip(f.router, f.client) / ICMP(type=5, code=1, gw="203.0.113.9") / bytes(query)[:28]
    yield Step("redirect about it", "outside", redirect, False, nftables=True)
