# SPDX-License-Identifier: Apache-2.0
"""Images that mean harm: what the lab runs and reads of them gives them nothing of the host.

An attack reports by its own counters what it could do, and each is of a kind that works with the
lab's rights.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import socket
import struct
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from headrace.ground.catalogue import catalogue
from headrace.host.tool import tool
from support.containers import headrace, lacking, ours, results, run

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
REPO = Path(__file__).resolve().parents[2]
_NO_TRAFFIC = lacking("traffic", base=True)
_NO_ENGINE = lacking("headrace")
# capabilities(7); what the definition grants, also to another user. With these a container that has
# the host's user namespace opens any file of the host, and makes any device.
_NUMBERS = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "NET_RAW": 13, "MKNOD": 27}
_FIRST_USER = 0x77000000  # docs/design/security.md
_AT_FDCWD = -100
_OPEN_BY_HANDLE_AT = {"x86_64": 304, "aarch64": 265}
_SECRET = "the host's\n"

_VNF = """\
name: evil
title: One that means harm
category: general
kind: routed
forwards: kernel
capabilities: [@GRANTED@]
"""
# Written over the program that the lab runs, once the container has started.
_START = """\
#!/bin/sh
cp /headrace/attack /headrace/counters
cp /headrace/attack /headrace/health
exec sleep infinity
"""
# A trial's counters are what grew during it: each value, once more with each reading.
_ATTACK = r"""#!/bin/sh
times=$(($(cat /tmp/times 2> /dev/null || echo 0) + 1))
echo $times > /tmp/times
say() { echo "$1 $(($2 * times))"; }
for name in CapEff NoNewPrivs Seccomp; do
    say $name "0x$(sed -n "s/^$name:[[:space:]]*//p" /proc/self/status)"
done
say uid "$(id -u)"
say first_user "$(awk '{ print $2; exit }' /proc/self/uid_map)"
say mounted "$(mount -t tmpfs none /mnt 2> /dev/null && echo 1 || echo 0)"
say made_a_disk "$(mknod /tmp/disk b 8 0 2> /dev/null && echo 1 || echo 0)"
say reached_the_host "$(perl -e '
    # A file of the host by its handle, on the file system that the container has /etc/hosts from
    # (open_by_handle_at(2), which needs CAP_DAC_READ_SEARCH).
    open(my $on, "<", "/etc/hosts") or die; my $handle = pack("H*", "@HANDLE@");
    my $fd = syscall(@CALL@, fileno($on), $handle, 02001);
    if ($fd >= 0) { open(my $file, ">&=", $fd); print $file "taken"; close($file); }
    print $fd >= 0 ? 1 : 0;')"
say rewritten 1
"""
# Started in place of the engine: what it can write of the run's folder leads to the host.
_ENGINE = """\
#!/bin/sh
plan=$2 control=$4 folder=${2%/*}
for name in start.stderr engine.stderr plan.json c vf.sock c/start.stderr; do
    ln -sfn @VICTIM@ "$folder/$name" || rm -rf "$folder/$name"
done 2> /dev/null
@THEN@
exec /usr/bin/engine "$@"
"""


def _handle(file: Path) -> str:
    """How the kernel names a file without a path (struct file_handle), in hexadecimal."""
    room = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 8 + 128)
    mount = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(_AT_FDCWD, os.fsencode(file), room, ctypes.byref(mount), 0):
        pytest.skip(f"{file}: {os.strerror(ctypes.get_errno())}")
    length = struct.unpack_from("=I", room)[0]
    return room.raw[: 8 + length].hex()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the host's that only root may touch."""
    file = tmp_path / "victim"
    file.write_text(_SECRET)
    file.chmod(0o600)
    return file


def _make(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o777)


def _image(folder: Path, name: str) -> str:
    done = headrace(folder, "vnf", "describe", name, "--json", HEADRACE_VNFS=str(folder / "vnfs"))
    return str(json.loads(done.stdout)["image"])


@pytest.mark.skipif(_NO_TRAFFIC is not None, reason=str(_NO_TRAFFIC))
@pytest.mark.parametrize(
    ("user", "granted"), [(0, ("NET_RAW",)), (65534, ("NET_RAW",)), (0, tuple(_NUMBERS))]
)
def test_programs_of_an_image_run_with_its_own_rights(
    tmp_path: Path, victim: Path, user: int, granted: tuple[str, ...]
) -> None:
    vnfs = tmp_path / "vnfs"
    shutil.copytree(REPO / "vnfs" / "traffic", vnfs / "traffic")
    call = str(_OPEN_BY_HANDLE_AT[platform.machine()])
    attack = _ATTACK.replace("@HANDLE@", _handle(victim)).replace("@CALL@", call)
    script = "#!/bin/sh\n"
    container = (
        "FROM debian:bookworm-slim\nCOPY start attack health counters /headrace/\n"
        f'RUN chmod -R 777 /headrace\nUSER {user}\nENTRYPOINT ["/headrace/start"]\n'
    )
    definition = _VNF.replace("@GRANTED@", ", ".join(granted))
    files = {"vnf.yaml": definition, "start": _START, "attack": attack, "counters": script}
    _make(vnfs / "evil", {**files, "health": script, "Containerfile": container})
    before = ours()
    done = run(
        tmp_path,
        "name: test\nchain: [evil]\ndeployment: {hosting: appliances}\nmeasure: {trial: 1 s}\n",
        HEADRACE_VNFS=str(vnfs),
    )
    tool().ask("rmi", "--force", _image(tmp_path, "evil"))
    [result] = results(done)
    assert victim.read_text() == _SECRET
    assert result["application"]["counters"]["evil"] == {
        "rewritten": 1, "CapEff": sum(1 << _NUMBERS[name] for name in granted),
        "NoNewPrivs": 1, "Seccomp": 2, "uid": user, "first_user": _FIRST_USER,
        "mounted": 0, "made_a_disk": 0, "reached_the_host": 0,
    }  # fmt: skip
    assert ours() <= before


def _hosted(folder: Path, victim: Path, then: str, measure: str) -> CompletedProcess[str]:
    """A run of headrace's own image in which something else stands for the engine."""
    real = catalogue()["headrace"].image
    engine = _ENGINE.replace("@VICTIM@", str(victim)).replace("@THEN@", then)
    container = (
        f"FROM {real}\nRUN mv /usr/bin/headrace-engine /usr/bin/engine\n"
        "COPY attack /usr/bin/headrace-engine\n"
    )
    vnfs = folder / "vnfs"
    shutil.copytree(REPO / "vnfs" / "headrace", vnfs / "headrace")
    definition = (vnfs / "headrace" / "vnf.yaml").read_text().replace("engine: true\n", "")
    files = {"vnf.yaml": definition, "attack": engine, "Containerfile": container}
    _make(vnfs / "headrace", files)
    done = run(
        folder,
        "name: test\nchain: [l2fwd]\ndeployment: {hosting: container, hugepages: false}\n"
        f"workload: {{frame: 128}}\nwarmup: 0\nmeasure: {measure}\n",
        HEADRACE_VNFS=str(vnfs),
    )
    tool().ask("rmi", "--force", _image(folder, "headrace"))
    return done


@pytest.mark.skipif(_NO_ENGINE is not None, reason=str(_NO_ENGINE))
def test_a_run_folder_cannot_be_made_to_lead_to_the_host(tmp_path: Path, victim: Path) -> None:
    """Each start of the VNF opens files there again: it is killed and started while it is at it."""
    before = ours()
    chaos = "{loads: [2000], chaos: {duration: 4, every: 1 s}}"
    done = _hosted(tmp_path, victim, "", chaos)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == _SECRET
    assert ours() <= before


@pytest.mark.skipif(_NO_ENGINE is not None, reason=str(_NO_ENGINE))
def test_nobody_is_connected_to_by_a_link(tmp_path: Path, victim: Path) -> None:
    with socket.socket(socket.AF_UNIX) as host:
        host.bind(str(tmp_path / "host"))
        host.listen()
        host.setblocking(False)
        link = f'ln -sfn {tmp_path / "host"} "$control"; sleep 60'
        done = _hosted(tmp_path, victim, link, "{loads: [2000], trial: 0.5}")
        with pytest.raises(BlockingIOError):
            host.accept()
    assert done.returncode == 1
    assert "is no socket, though a VNF was to listen there" in done.stderr
    assert "Traceback" not in done.stderr


# What it could take of the host, said in its last words.
_TAKE = r"""
took=
for place in /usr/bin /etc /var/lib /; do
    touch $place/mine 2> /dev/null && took="$took $place"
done
for place in /tmp /run /var/tmp /dev/shm; do
    head -c 40000000 /dev/zero > $place/full 2> /dev/null
    took="$took $place=$(($(stat -c %s $place/full) / 1000000))MB"
    rm -f $place/full
done
took="$took oom=$(cat /proc/self/oom_score_adj)"
made=$( (while :; do sleep 30 > /dev/null 2>&1 & echo; done) 2> /dev/null | wc -l)
echo "took:$took processes=$made" >&2
exit 3
"""


@pytest.mark.skipif(_NO_ENGINE is not None, reason=str(_NO_ENGINE))
def test_what_a_container_takes_is_bounded(tmp_path: Path, victim: Path) -> None:
    """It writes nothing but a little memory, and cannot fill the host with processes."""
    before = ours()
    done = _hosted(tmp_path, victim, _TAKE, "{loads: [2000], trial: 0.5}")
    assert done.returncode == 1 and "its engine died (exit status 3)" in done.stderr, done.stderr
    words = done.stderr.split("took: ")[1].split()
    assert words[:4] == ["/tmp=16MB", "/run=16MB", "/var/tmp=16MB", "/dev/shm=16MB"]
    assert words[4] == "oom=1000"  # what may be ended before anything of the host's
    processes = int(words[5].removeprefix("processes="))
    assert 100 < processes < 2048
    assert ours() <= before
