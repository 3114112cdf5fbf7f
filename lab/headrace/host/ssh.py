# SPDX-License-Identifier: Apache-2.0
"""A program on another server, started over SSH and spoken to over its standard input and output.

Keys, known hosts and the rest of the configuration are the user's own, as `ssh` has them. What is
written to the program comes in lines; between two of them an empty one is sent every few seconds,
by which the program knows that its user is still there, also where a cable was pulled.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import socket
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

import asyncssh

from headrace.errors import HeadraceError
from headrace.host.beat import BEAT_S, SILENT_S
from headrace.host.tool import printable

_CONNECT_S = 30.0
_END_S = 60.0  # that the program may take to undo what it did
_CHUNK_BYTES = 1 << 16
_WORDS_BYTES = 4096  # of its standard error that are kept


class SshProgram:
    """`socket` leads to the program, and has an end when the program, or the connection, has."""

    def __init__(self, to: str, command: Sequence[str]) -> None:
        """`to`: HOST or USER@HOST."""
        self._to, self._command = to, shlex.join(command)
        self.socket, self._theirs = socket.socketpair()
        self._words = bytearray()
        self._why = ""
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ssh {to}", daemon=True)
        self._thread.start()
        self._up.wait(_CONNECT_S + BEAT_S)
        if self._why or not self._up.is_set():
            self.close()
            raise HeadraceError(f"ssh {to}: {printable(self._why) or 'no answer'}")

    @property
    def over(self) -> bool:
        """Whether the program, or the connection to it, has ended."""
        return not self._thread.is_alive()

    @property
    def last_words(self) -> str:
        """Why it is over, as far as anybody said."""
        self._thread.join(BEAT_S)
        lines = self._words.decode(errors="replace").strip().splitlines()
        return printable(" | ".join([*lines[-3:], *filter(None, [self._why])]))

    def close(self) -> None:
        """The program's input ends, by which it undoes what it did; waits until it has."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        self._thread.join(_END_S)
        self.socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._connected())
        # ValueError: a key, a list of hosts or a configuration that cannot be read.
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            self._why = str(error) or type(error).__name__
        finally:
            self._up.set()
            self._theirs.close()

    async def _connected(self) -> None:
        user, at, host = self._to.rpartition("@")
        as_user: dict[str, Any] = {"username": user} if at else {}
        async with asyncssh.connect(
            host, **as_user, connect_timeout=_CONNECT_S,
            keepalive_interval=BEAT_S, keepalive_count_max=int(SILENT_S / BEAT_S),
        ) as connection:  # fmt: skip
            process = await connection.create_process(self._command, encoding=None)
            self._up.set()
            await self._talk(process)
            if process.exit_signal or process.exit_status:
                self._why = f"`{self._command}` ended: {process.exit_signal or process.exit_status}"

    async def _talk(self, process: Any) -> None:
        """Talks until the program has ended, which it does when its input has."""
        reader, writer = await asyncio.open_connection(sock=self._theirs, limit=_CHUNK_BYTES)
        there = asyncio.create_task(_until_lost(self._in(reader, process.stdin)))
        words = asyncio.create_task(_until_lost(self._err(process.stderr)))
        try:
            while data := await process.stdout.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
            await process.wait_closed()
            await words
        finally:
            there.cancel()
            writer.close()

    async def _in(self, reader: asyncio.StreamReader, stdin: Any) -> None:
        between = True  # two lines
        while not stdin.is_closing():
            try:
                data = await asyncio.wait_for(reader.read(_CHUNK_BYTES), BEAT_S)
            except TimeoutError:
                if between:
                    stdin.write(b"\n")
                continue
            if not data:
                stdin.write_eof()
                return
            stdin.write(data)
            await stdin.drain()
            between = data.endswith(b"\n")

    async def _err(self, stderr: Any) -> None:
        while data := await stderr.read(_CHUNK_BYTES):
            self._words += data
            del self._words[:-_WORDS_BYTES]


async def _until_lost(work: Coroutine[Any, Any, None]) -> None:
    """Whoever reads what the program says is told that the connection was lost."""
    with contextlib.suppress(OSError, asyncssh.Error):
        await work
