# SPDX-License-Identifier: Apache-2.0
"""A folder with a network function outside of the engine's tree (docs/functions.md)."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from headrace.engine.describe import Description
from headrace.errors import BadInput, HeadraceError
from headrace.host.programs import BUILT, PACKAGE, installed

NEW = "new"
_TEMPLATE, _CALLED = PACKAGE / "templates" / "function", "my-function"
_HARNESS = "libheadrace-harness.a"  # `make demo` builds the engine alone
_NAME = re.compile(r"^[a-z][a-z0-9-]{0,30}$")


def write_function(name: str | None, description: Description) -> None:
    """Writes it into a folder of that name. BadInput where it is there, or can be no function's
    name."""
    if name is None or not _NAME.match(name):
        raise BadInput(
            f"nf new: {name or 'no name'}; allowed: NAME of small letters, digits and `-`, a "
            "letter first, at most 31"
        )
    if name in description.nfs or name == NEW:
        raise BadInput(f"nf new: there is a function {name} already; allowed: another name")
    folder = Path(name)
    try:
        folder.mkdir()
        for file in sorted(_TEMPLATE.iterdir()):
            (folder / file.name).write_text(file.read_text().replace(_CALLED, name))
    except FileExistsError:
        raise BadInput(f"nf new: {folder} is there already; allowed: a new folder") from None
    except OSError as error:
        raise HeadraceError(f"nf new: {folder}: {error.strerror}") from None
    outside = BUILT / "engine" / "outside"
    paths = "" if installed() else f"PKG_CONFIG_PATH={outside} "
    first = (
        "" if installed() or (outside / _HARNESS).exists() else f"make -C {BUILT.parent} setup\n"
    )
    typer.echo(
        f"{folder}/function.c limits the rate of each source; change it as you want. Then:\n\n"
        f"{first}cd {folder}\n"
        f"{paths}meson setup build\n"
        "ninja -C build && meson test -C build\n"
        f"headrace nf {name} --load build/{name}.so\n"
        "headrace run study.yaml"
    )
