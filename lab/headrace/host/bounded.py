# SPDX-License-Identifier: Apache-2.0
"""A program whose output somebody else decides: for so long, and so many bytes, at most."""

from __future__ import annotations

import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

OUTPUT_MOST = 16 << 20  # bytes, of both streams together
_CHUNK = 1 << 16


class Unbounded(Exception):
    """It was killed; the text says what it did."""


def run_bounded(
    command: Sequence[str],
    timeout_s: float,
    most: int = OUTPUT_MOST,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Works as subprocess.run with its output captured; Unbounded where it says or takes too
    much."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        try:
            out, err = _outputs(process, timeout_s, most)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _outputs(process: subprocess.Popen[bytes], timeout_s: float, most: int) -> tuple[str, str]:
    """What it wrote to both streams until it ended."""
    deadline = time.monotonic() + timeout_s
    pieces: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Unbounded(f"did not end in {timeout_s:.0f} s")
            for key, _ in ready:
                piece = key.fileobj.read1(_CHUNK)  # type: ignore[union-attr]
                if not piece:
                    selector.unregister(key.fileobj)
                pieces[key.fileobj] += piece
            if sum(map(len, pieces.values())) > most:
                raise Unbounded(f"wrote more than {most} bytes")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Unbounded(f"did not end in {timeout_s:.0f} s") from None
    return (
        pieces[process.stdout].decode(errors="replace"),
        pieces[process.stderr].decode(errors="replace"),
    )
