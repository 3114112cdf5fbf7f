# SPDX-License-Identifier: Apache-2.0
"""podman or docker: which of them runs containers here, and the little in which they differ."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.errors import HeadraceError, bad_value

VARIABLE = "HEADRACE_CONTAINERS"
Name = Literal["podman", "docker"]
BASE_IMAGE = "debian:bookworm-slim"
NAMES: tuple[Name, ...] = ("podman", "docker")
_TIMEOUT_S = 120
_LOG_MOST = "4m"
_WORDS_MOST = 1000  # characters of an error message
# docker's daemon may hang. podman is a program of its own, and has taken more than a minute in an
# emulated guest on a busy machine.
_ASK_S: Mapping[Name, float] = {"docker": 60.0, "podman": 240.0}
_NAMESPACES = Path("/run/netns")
# Where resource limits may not be raised, a container starts only with those that are left.
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


@dataclass(frozen=True)
class Tool:
    name: Name
    path: str

    @property
    def enters(self) -> bool:
        """podman puts a container into a network namespace that is there. docker makes one with
        the container; others can only join that."""
        return self.name == "podman"

    def network(self, namespace: str, holder: str) -> str:
        return f"ns:{_NAMESPACES / namespace}" if self.enters else f"container:{holder}"

    def starts(self) -> list[list[str]]:
        """Ways to start a container, the plainest first."""
        options = [["run"], ["run", *_LIMITS]]
        if self.name == "podman" and shutil.which("runc"):
            options.append(["--runtime", "runc", "run", *_LIMITS])
        return options

    def builds(self) -> list[list[str]]:
        """Ways to build an image, the plainest first.

        podman's own network for a build is a bridge and chains of the host's firewall, which stay
        when the build has ended: the host's network leaves nothing. docker's daemon has its bridge
        anyway.
        """
        if self.name == "docker":
            plain = ["build", "--force-rm"]  # also what a failed step leaves
            return [plain, [*plain, "--network=host"]]
        plain = ["build", "--network=host"]
        # Without the right to raise limits, only the chroot isolation can run a build's commands.
        runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        return [plain, [*runtime, *plain, "--isolation=chroot"]]

    @property
    def logging(self) -> list[str]:
        """A driver whose logs can be read back, whatever the machine's default is, and which a
        container cannot fill the disk with."""
        driver = "k8s-file" if self.name == "podman" else "json-file"
        return ["--log-driver", driver, "--log-opt", f"max-size={_LOG_MOST}"]

    @property
    def removal(self) -> list[str]:
        at_once = ["--time", "0"] if self.name == "podman" else []
        return ["rm", "--force", *at_once, "--volumes"]

    @property
    def environment(self) -> Mapping[str, str]:
        """docker's newer builder is a plug-in that need not be there."""
        return os.environ | ({"DOCKER_BUILDKIT": "0"} if self.name == "docker" else {})

    def answers(self) -> None:
        """docker is a client: its daemon is another matter."""
        if self.name == "docker":
            done = self.ask("version", "--format", "{{.Server.Version}}")
            if done.returncode:
                raise HeadraceError(
                    f"docker: its daemon does not answer: {last_words(done.stderr)}"
                )

    def ask(
        self, *arguments: str, timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command whose status the caller judges."""
        timeout_s = _ASK_S[self.name] if timeout_s is None else timeout_s
        try:
            return subprocess.run(
                [self.path, *arguments], capture_output=True, errors="replace", timeout=timeout_s,
                check=False, env=self.environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            verb = arguments[0]
            raise HeadraceError(f"{self.name} {verb}: no answer in {timeout_s:.0f} s") from None

    def call(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float = _TIMEOUT_S,
        temporary: Path | None = None,
    ) -> str:
        """Standard output; a HeadraceError with the last words otherwise.

        `temporary`: of a build, which has its temporary files there, and ends with this process
        rather than go on behind the back of a killed run."""
        command, environment = [self.path, *arguments], dict(self.environment)
        if temporary is not None:
            command = [*with_us(), *command]
            environment["TMPDIR"] = str(temporary)
        try:
            done = subprocess.run(
                command, capture_output=True, errors="replace", timeout=timeout_s, check=False,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise HeadraceError(
                f"{self.name} {arguments[0]}: no answer in {timeout_s:.0f} s"
            ) from None
        if done.returncode:
            words = last_words(done.stderr)
            raise HeadraceError(f"{self.name} {' '.join(arguments[:2])}: {words}")
        return done.stdout


def with_us() -> list[str]:
    """Put before a command, ends it when this process is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def installed() -> list[Tool]:
    return [Tool(name, path) for name in NAMES if (path := shutil.which(name)) is not None]


def tool() -> Tool:
    """The one that HEADRACE_CONTAINERS names, else the first that is installed."""
    named = os.environ.get(VARIABLE)
    if named and named not in NAMES:
        raise bad_value(VARIABLE, named, allowed=" or ".join(NAMES))
    for one in installed():
        if one.name == (named or one.name):
            return one
    if named == "docker":
        raise HeadraceError("docker: not found; install it (`apt-get install docker.io`)")
    raise HeadraceError("podman: not found; install it (`apt-get install podman`)")


def last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "failed without a word"


def printable(text: str) -> str:
    """The text as a terminal may be given what a container wrote: no escape sequences, not without
    end."""
    return "".join(c if c.isprintable() else "?" for c in text[:_WORDS_MOST])
