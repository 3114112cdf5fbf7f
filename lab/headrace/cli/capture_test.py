# SPDX-License-Identifier: Apache-2.0
"""Captures that are a stranger's, or damaged; what is right is held against scapy in
tests/cli/test_init.py."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import tracemalloc
from collections import Counter
from pathlib import Path

import dpkt
import numpy as np
import pytest

from headrace.cli._capture import CLASSES, Capture, read
from headrace.errors import BadInput

HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
UNFOLDED = 256 << 20
MEMORY_MOST = 16 << 20


def captured(*packets: bytes) -> bytes:
    file = io.BytesIO()
    writer = dpkt.pcap.Writer(file)
    for packet in packets:
        writer.writepkt(packet, ts=1.0)
    return file.getvalue()


def test_a_megabyte_that_unfolds_to_hundreds_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "c.pcap.gz"
    with gzip.open(file, "wb", 1) as out:
        out.write(HEAD + struct.pack("<IIII", 0, 0, UNFOLDED, UNFOLDED))
        for _ in range(UNFOLDED >> 20):
            out.write(bytes(1 << 20))
    assert file.stat().st_size < 4 << 20
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match=f"packet 1: .* a block of {UNFOLDED} bytes; allowed"):
            read(file)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_MOST
    finally:
        tracemalloc.stop()


def test_what_is_too_short_lacks_bytes(tmp_path: Path) -> None:
    file = tmp_path / "c.pcap"
    file.write_bytes(HEAD[:10])
    with pytest.raises(BadInput, match=r"not a capture: got 10, 24 needed at least \(bytes\)"):
        read(file)


def test_a_block_of_pcapng_that_says_it_has_gigabytes(tmp_path: Path) -> None:
    file, written = tmp_path / "c.pcapng", io.BytesIO()
    dpkt.pcapng.Writer(written).writepkt(bytes(60), ts=1.0)
    file.write_bytes(written.getvalue() + struct.pack("<II", 6, 1 << 31))
    with pytest.raises(BadInput, match=r"packet 2: .* a block of"):
        read(file)


def test_labels_without_an_end_are_no_ip(tmp_path: Path) -> None:
    """MPLS, whose last label is none: dpkt reads behind the frame."""
    labels = bytes(12) + b"\x88\x47" + bytes.fromhex("00001140")
    (tmp_path / "c.pcap").write_bytes(captured(labels))
    capture = read(tmp_path / "c.pcap")
    assert (capture.packets, capture.others) == (1, 1)


@pytest.mark.parametrize("at", [12, 200])
def test_damaged_gzip_is_one_line(tmp_path: Path, at: int) -> None:
    whole = bytearray(gzip.compress(captured(*(random.Random(i).randbytes(60) for i in range(99)))))
    whole[at : at + 4] = b"\xff\xff\xff\xff"
    (tmp_path / "c.pcap").write_bytes(whole)
    with pytest.raises(BadInput, match=r"c\.pcap: [^\n]*$"):
        read(tmp_path / "c.pcap")


def test_what_has_no_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BadInput, match="is no regular file; allowed: a capture"):
            read(file)


def test_a_mix_is_that_of_all_packets_in_order() -> None:
    """Against a list with each packet's size, as it once was computed."""
    choose = random.Random(1)
    for count in (1, 2, 63, 64, 65, 1000, 4097):
        several = Counter(choose.choice((64, 65, 600, 1518)) for _ in range(count))
        sizes = sorted(several.elements())
        parts = min(CLASSES, count)
        upto = np.cumsum([0, *sizes])
        edges = np.interp(np.arange(parts + 1) * count / parts, np.arange(count + 1), upto)
        expected = Counter(round(float(mean)) for mean in np.diff(edges) * parts / count)
        assert Capture(sizes=several).mix() == expected
