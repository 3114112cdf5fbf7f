# SPDX-License-Identifier: Apache-2.0
"""What a wheel has beside the lab's Python, in `headrace/installed`: the engine with DPDK in it,
the tracer, their tools; VNF definitions, studies, servers; the licences of what is linked.

It runs on every machine with the C library of the one that builds it, or a newer one: auditwheel
adds the libraries. A checkout (an editable installation) has its own build folder instead.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Each project of meson's with the options that a package needs.
PROJECTS = {
    "": ["-Dnative=false", "-Dtests=disabled", "-Dstatic_dpdk=true", "-Dhyperscan=enabled",
          "-Dndpi=enabled"],
    "trace": ["--buildtype=release"],
}  # fmt: skip
INSTALLED = "headrace/installed"
# Linked from archives, which ldd does not know.
ARCHIVES = ("libdpdk-dev",)


class Programs(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        build = root / "build" / "package"
        stage = build / "stage"
        shutil.rmtree(build, ignore_errors=True)
        for project, options in PROJECTS.items():
            compile_into(stage, root / project, build / f"build-{project}", options)
        licences(stage)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
        sources = {stage / "bin": "bin", stage / "licences": "licences"}
        sources |= {root / name: name for name in ("vnfs", "studies", "servers")}
        build_data["force_include"] |= {
            str(path): f"{INSTALLED}/{name}" for path, name in sources.items()
        }


def compile_into(stage: Path, source: Path, build: Path, options: list[str]) -> None:
    # Paths of the build's machine are in no program: two builds give the same bytes.
    flags = f"-ffile-prefix-map={source}=. -ffile-prefix-map={build}=."
    environment = os.environ | {"DESTDIR": str(stage), "CFLAGS": flags}
    for command in (
        ["meson", "setup", str(build), str(source), "--prefix=/", "--bindir=bin", *options],
        ["meson", "compile", "-C", str(build)],
        ["meson", "install", "-C", str(build), "--no-rebuild", "--strip"],
    ):
        subprocess.run(command, env=environment, check=True)


def licences(stage: Path) -> None:
    """Debian's copyright file of each package that something comes from."""
    files = set()
    for program in (stage / "bin").iterdir():
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
        files |= {f"*/{Path(f).resolve().name}" for f in re.findall(r"=> (/\S+)", done.stdout)}
    owners = subprocess.run(["dpkg", "-S", *sorted(files)], capture_output=True, text=True).stdout
    packages = {line.split(":")[0] for line in owners.splitlines()} | set(ARCHIVES)
    target = stage / "licences"
    target.mkdir()
    for package in packages - {"libc6"}:
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", target / package)
