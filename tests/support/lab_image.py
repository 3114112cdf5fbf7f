# SPDX-License-Identifier: Apache-2.0
"""An image with this checkout's lab, as a release's has it, made on the catalogue's `headrace`,
which has the engine. A release takes minutes to build; this takes seconds. As there, what Python
makes of its source is in it: else each point of a campaign and each agent makes it again."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sysconfig
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.host import programs

REPO = Path(__file__).resolve().parents[2]
NAME = "localhost/headrace/lab:test"
# What no prediction loads, and what only developers need.
LEFT_OUT = (
    "*mypy*", "babel", "hypothesis", "kubernetes", "material", "mkdocs*", "ortools", "pandas",
    "pip", "pymdownx", "ruff*", "scapy", "setuptools",
)  # fmt: skip
CONTAINERFILE = """FROM {engine}
RUN apt-get update && apt-get install -y --no-install-recommends python3 libbpf1 \\
    && rm -rf /var/lib/apt/lists/*
COPY site /opt/site
COPY headrace /opt/headrace
COPY programs /usr/bin/
RUN printf '#!/bin/sh\\nexec python3 -m headrace "$@"\\n' >/usr/bin/headrace \\
    && chmod 755 /usr/bin/headrace
RUN python3 -m compileall -q /opt/headrace/lab
ENV PYTHONPATH=/opt/headrace/lab:/opt/site
ENTRYPOINT ["headrace"]
"""


def build(engine: str, folder: Path) -> str:
    """`engine`: the image that has it. Gives the new one's name."""
    site = Path(sysconfig.get_paths()["purelib"])
    shutil.copytree(site, folder / "site", ignore=shutil.ignore_patterns(*LEFT_OUT))
    for name in ("lab", "servers", "studies", "vnfs"):
        shutil.copytree(
            REPO / name, folder / "headrace" / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    (folder / "programs").mkdir()
    for name in ("headrace-trace", "headrace-cores"):  # built where clang is
        with contextlib.suppress(HeadraceError):
            shutil.copy2(programs.find_beside_tracer(name), folder / "programs")
    (folder / "Containerfile").write_text(CONTAINERFILE.format(engine=engine))
    build_in(folder, NAME)
    return NAME


def build_in(folder: Path, name: str) -> None:
    """What a folder's Containerfile says."""
    subprocess.run(
        ["podman", "--runtime", "runc", "build", "--quiet", "--isolation=chroot", "--network=host",
         "--tag", name, folder],
        check=True, stdout=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip


def remove(name: str = NAME) -> None:
    subprocess.run(["podman", "rmi", "--force", name], check=False, capture_output=True, timeout=60)
