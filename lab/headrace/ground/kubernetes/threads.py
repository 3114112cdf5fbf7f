# SPDX-License-Identifier: Apache-2.0
"""What a pod's threads ran and waited for, told by a shell that stays in the pod.

A command for each look would have a tenth of a second of the poller's own CPU, on which a pod's
commands run: that alone made each short trial suspect. The shell starts nothing: it has `read`."""

from __future__ import annotations

import time

from headrace.errors import HeadraceError
from headrace.ground.kubernetes.tunnel import Tunnel
from headrace.host.cluster import Cluster

_END = b".\n"
_ANSWER_S = 60.0
_ANSWER_MOST = 1 << 20  # bytes


def script(proc: str = "/proc") -> str:
    """For a shell in the pod: at first each thread's CPUs, which stay as they are while an engine
    runs; then for each line that it is sent what each of them ran and waited (ns), the node's CPUs,
    and a dot."""
    return f"""threads=
for thread in {proc}/[0-9]*/task/[0-9]*; do
    cpus=
    while read -r key value; do
        [ "$key" != Cpus_allowed_list: ] || cpus=$value
    done <"$thread/status"
    threads="$threads $thread=$cpus"
done 2>/dev/null
while read -r _; do
    for one in $threads; do
        thread=${{one%=*}}
        if read -r counts <"$thread/schedstat"; then
            echo "${{thread##*/}} ${{one##*=}} $counts"
        fi
    done 2>/dev/null
    while read -r name counts; do
        case $name in cpu*) echo "$name $counts" ;; *) break ;; esac
    done <{proc}/stat
    echo .
done"""


class PodThreads:
    """Begun once the pod's engine runs. What it answers is the pod's to choose: of a size and in a
    time that are bounded."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, container: str) -> None:
        self._pod = pod
        self._tunnel = Tunnel(cluster, namespace, pod, container, ("sh", "-c", script()))

    def read(self) -> str:
        deadline = time.monotonic() + _ANSWER_S
        what, answer = f"pod {self._pod}: what its threads ran", b""
        try:
            self._tunnel.socket.sendall(b"\n")
            while answer != _END and not answer.endswith(b"\n" + _END):
                if len(answer) > _ANSWER_MOST:
                    raise HeadraceError(f"{what} has more than {_ANSWER_MOST} bytes")
                self._tunnel.socket.settimeout(max(0.001, deadline - time.monotonic()))
                part = self._tunnel.socket.recv(1 << 16)
                if not part:
                    raise HeadraceError(f"{what} is not told any more: its stream has ended")
                answer += part
        except TimeoutError:
            raise HeadraceError(f"{what} was not told in {_ANSWER_S:g} s") from None
        except OSError as why:
            raise HeadraceError(f"{what} is not told any more: {why.strerror}") from None
        return answer.removesuffix(_END).decode(errors="replace")

    def close(self) -> None:
        self._tunnel.close()
