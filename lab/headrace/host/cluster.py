# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster: objects made, watched and deleted, commands in containers, by the official
client. All goes by the API server; nothing listens on the cluster's networks."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import HeadraceError
from headrace.host.cluster_stream import STDERR, STDOUT, CommandStream, Output
from headrace.host.tool import last_words, printable

T = TypeVar("T")

MANAGED = {"app.kubernetes.io/managed-by": "headrace"}
_REQUEST_S = (5, 30)  # to connect, and to be answered
_WITHIN = {"_request_timeout": _REQUEST_S}
_RAW = {"_preload_content": False, "_request_timeout": _REQUEST_S}
_REFUSED = 300  # HTTP status
_RETRIES = 1  # of requests that did not reach the server
# A way that is cut says nothing: after 25 s without a sign of life a connection is over.
_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
)
_DELETED_S = 120.0
_LOOK_S = 0.3
_ACCOUNT_S, _ACCOUNT_LOOK_S = 20.0, 0.1
_CHUNK_BYTES = 1 << 16
_OUTPUT_MOST = 16 << 20  # bytes that a command may write
_WORDS_MOST = 1 << 16  # bytes of a log's last lines
LOG_MOST = 64 << 20  # bytes of a whole one
# Kinds that the client has no calls of, or not in each of its versions, as paths name them.
_OTHERS = {
    "NetworkAttachmentDefinition": "network-attachment-definitions",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}


def _client() -> Any:
    """The client's modules: half a second to load, for who asks for a cluster only."""
    try:
        import kubernetes.stream

        import kubernetes
    except ImportError:
        raise HeadraceError(
            "Kubernetes: the client is not installed: `pip install 'headrace[kubernetes]'`"
        ) from None
    return kubernetes


def _load(kubernetes: Any, kubeconfig: str, context: str | None, config: Any) -> None:
    """The client writes what a kubeconfig has of certificates, and the user's private key, to
    files, which a kill would leave in TMPDIR: they are in memory, and go with the process."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        kubernetes.config.load_kube_config(
            kubeconfig, context, client_configuration=config, temp_file_path=folder
        )
        for name in ("ssl_ca_cert", "cert_file", "key_file"):
            path = getattr(config, name)
            if path is not None and Path(path).parent == Path(folder):
                setattr(config, name, _in_memory(Path(path).read_bytes()))


@cache
def _in_memory(content: bytes) -> str:
    """Where a file of it is, also for a process that is forked from this one."""
    descriptor = os.memfd_create("kubeconfig")
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"


class Cluster:
    """It is reached by the kubeconfig (KUBECONFIG, ~/.kube/config), or as a pod of the cluster's
    own."""

    def __init__(self, context: str | None = None, kubeconfig: str | None = None) -> None:
        """`kubeconfig`: of a run before, instead of what the environment says now."""
        self._kubernetes = _client()
        config = self._kubernetes.client.Configuration()
        self.kubeconfig = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        own = context is None and "KUBERNETES_SERVICE_HOST" in os.environ
        if not own and not any(map(Path.exists, _files(self.kubeconfig))):
            raise HeadraceError(f"Kubernetes: no cluster: {_no_file(kubeconfig)}")
        try:
            if own:
                self._kubernetes.config.load_incluster_config(client_configuration=config)
            else:
                _load(self._kubernetes, self.kubeconfig, context, config)
        except self._kubernetes.config.ConfigException as why:
            raise HeadraceError(f"Kubernetes: no cluster: {printable(str(why))}") from None
        config.retries = _RETRIES
        config.socket_options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *_ALIVE]
        self.context, self._config = context, config
        self._own = threading.local()  # a stream changes the client that it is opened by

    @property
    def server(self) -> str:
        return str(self._config.host)

    @property
    def _core(self) -> Any:
        if not hasattr(self._own, "core"):
            api = self._kubernetes.client.ApiClient(self._config)
            self._own.core = self._kubernetes.client.CoreV1Api(api)
        return self._own.core

    def ask(self, what: str, work: Callable[[], T]) -> T:
        """One request; what is wrong with it or the way to the server is one line."""
        try:
            return work()
        except self._kubernetes.client.ApiException as why:
            raise HeadraceError(f"Kubernetes: {what}: {_told(why)}") from None
        except Exception as why:
            if not _is_network(why):
                raise
            raise HeadraceError(f"Kubernetes: {what}: {self.server}: {_reason(why)}") from None

    # objects -----------------------------------------------------------------------------

    def version(self) -> str:
        api = self._kubernetes.client.VersionApi(self._core.api_client)
        asked = self.ask("version", partial(api.get_code, **_WITHIN))
        return str(asked.git_version)

    def read(self, what: str, work: Callable[[], Any]) -> dict[str, Any]:
        """A reading request's answer as the API server sent it."""
        raw = self.ask(what, work)
        if raw.status >= _REFUSED:
            text = raw.data.decode(errors="replace")
            raise HeadraceError(f"Kubernetes: {what}: {_message(text, f'status {raw.status}')}")
        answer = json.loads(raw.data)
        assert isinstance(answer, dict)
        return answer

    def create(self, body: Mapping[str, Any]) -> None:
        """The answer is the object again, and is not made one of the client's models: of a large
        pod that takes longer than to ask for it."""
        kind, metadata = str(body["kind"]), body["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        core = self._core
        if kind == "Namespace":
            work = partial(core.create_namespace, body, **_RAW)
        elif kind == "Pod":
            work = partial(core.create_namespaced_pod, namespace, body, **_RAW)
        elif kind == "ConfigMap":
            work = partial(core.create_namespaced_config_map, namespace, body, **_RAW)
        elif kind == "Job":
            batch = self._kubernetes.client.BatchV1Api(core.api_client)
            work = partial(batch.create_namespaced_job, namespace, body, **_RAW)
        elif kind == "DaemonSet":
            apps = self._kubernetes.client.AppsV1Api(core.api_client)
            work = partial(apps.create_namespaced_daemon_set, namespace, body, **_RAW)
        else:
            group, _, version = str(body["apiVersion"]).partition("/")
            custom = self._kubernetes.client.CustomObjectsApi(core.api_client)
            make = custom.create_namespaced_custom_object
            work = partial(make, group, version, namespace, _OTHERS[kind], body, **_RAW)
        self.read(f"{kind.lower()} {name}", work)

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.read("nodes", partial(self._core.list_node, **_RAW))["items"])

    def pods(self, namespace: str, chosen: str = "") -> list[dict[str, Any]]:
        """`chosen`: by labels."""
        options = {"label_selector": chosen} if chosen else {}
        work = partial(self._core.list_namespaced_pod, namespace, **options, **_RAW)
        return list(self.read(f"pods of {namespace}", work)["items"])

    def job(self, namespace: str, name: str) -> dict[str, Any]:
        batch = self._kubernetes.client.BatchV1Api(self._core.api_client)
        work = partial(batch.read_namespaced_job, name, namespace, **_RAW)
        return self.read(f"job {name}", work)

    def namespaces(self) -> list[dict[str, Any]]:
        """Those that headrace made."""
        [(label, value)] = MANAGED.items()
        work = partial(self._core.list_namespace, label_selector=f"{label}={value}", **_RAW)
        return list(self.read("namespaces", work)["items"])

    def make_namespace(self, body: Mapping[str, Any]) -> None:
        """Returns once it has its default account, without which no pod is admitted."""
        self.create(body)
        name = str(body["metadata"]["name"])
        deadline = time.monotonic() + _ACCOUNT_S
        while not self._has_account(name):
            if time.monotonic() > deadline:
                raise HeadraceError(
                    f"Kubernetes: namespace {name} has no account after {_ACCOUNT_S:.0f} s: does "
                    "the controller manager run?"
                )
            time.sleep(_ACCOUNT_LOOK_S)

    def _has_account(self, namespace: str) -> bool:
        work = partial(self._core.list_namespaced_service_account, namespace, **_RAW)
        return bool(self.read(f"accounts of {namespace}", work)["items"])

    def warnings(self, namespace: str, pod: str) -> list[str]:
        """What events say of a pod."""
        chosen = f"involvedObject.name={pod},type=Warning"
        work = partial(self._core.list_namespaced_event, namespace, field_selector=chosen, **_RAW)
        events = self.read(f"events of {namespace}", work)["items"]
        return [str(one.get("message", "")) for one in events]

    # what it can do ------------------------------------------------------------------------

    def may(self, verb: str, resource: str, group: str) -> bool:
        """Whether this user may, in any namespace (SelfSubjectAccessReview)."""
        kind, _, part = resource.partition("/")
        asked = {"verb": verb, "resource": kind, "subresource": part, "group": group}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        api = self._kubernetes.client.AuthorizationV1Api(self._core.api_client)
        work = partial(api.create_self_subject_access_review, body, **_WITHIN)
        return bool(self.ask(f"{verb} {resource}", work).status.allowed)

    def kubelet(self, node: str) -> dict[str, Any]:
        """A kubelet's configuration."""
        work = partial(self._core.connect_get_node_proxy_with_path, node, "configz", **_RAW)
        config = self.read(f"node {node}: configz", work)["kubeletconfig"]
        assert isinstance(config, dict)
        return config

    def versions(self, group: str) -> list[str]:
        """Those of an API's group that the API server has, its preferred one first."""
        api = self._kubernetes.client.ApisApi(self._core.api_client)
        groups = self.read("groups", partial(api.get_api_versions, **_RAW))["groups"]
        for one in groups:
            if one["name"] == group:
                preferred = one["preferredVersion"]["version"]
                every = [version["version"] for version in one["versions"]]
                return sorted(every, key=lambda version: version != preferred)
        return []

    def serves(self, group: str, resource: str) -> bool:
        """Whether the API server knows this kind of object."""
        versions = self.versions(group)
        if not versions:
            return False
        custom = self._kubernetes.client.CustomObjectsApi(self._core.api_client)
        work = partial(custom.get_api_resources, group, versions[0], **_RAW)
        return any(one["name"] == resource for one in self.read(group, work)["resources"])

    def drivers(self, version: str) -> list[str]:
        """Those that offer devices for claims (dynamic resource allocation)."""
        custom = self._kubernetes.client.CustomObjectsApi(self._core.api_client)
        work = partial(
            custom.list_cluster_custom_object, "resource.k8s.io", version, "resourceslices", **_RAW
        )
        return sorted(
            {one["spec"]["driver"] for one in self.read("resource slices", work)["items"]}
        )

    def logs(self, namespace: str, pod: str, container: str) -> str:
        """A container's last words; nothing where nobody kept them."""
        with contextlib.suppress(HeadraceError):
            read = self._core.read_namespaced_pod_log
            options = {"container": container, "tail_lines": 5, "limit_bytes": _WORDS_MOST}
            raw = self.ask("log", partial(read, pod, namespace, **options, **_RAW))
            return last_words(raw.data.decode(errors="replace"))
        return ""

    def delete_job(self, namespace: str, name: str) -> None:
        """With its pods, whose end is not waited for."""
        batch = self._kubernetes.client.BatchV1Api(self._core.api_client)
        options = {"propagation_policy": "Background"}
        work = partial(batch.delete_namespaced_job, name, namespace, **options, **_WITHIN)
        self.ask(f"job {name}", work)

    def delete_daemon_set(self, namespace: str, name: str) -> None:
        """Nothing makes its pods again then; whether it was there or not."""
        apps = self._kubernetes.client.AppsV1Api(self._core.api_client)

        def work() -> None:
            try:
                apps.delete_namespaced_daemon_set(name, namespace, **_WITHIN)
            except self._kubernetes.client.ApiException as why:
                if why.status != 404:
                    raise

        self.ask(f"daemonset {name}", work)

    def output(self, namespace: str, pod: str, container: str) -> str:
        """All that a container wrote, as far as its node kept it; one that has ended."""
        read = self._core.read_namespaced_pod_log
        options = {"container": container, "limit_bytes": LOG_MOST}
        raw = self.ask(f"log of {pod}", partial(read, pod, namespace, **options, **_RAW))
        if len(raw.data) >= LOG_MOST:
            raise HeadraceError(f"{pod}: its log has {LOG_MOST} bytes or more")
        return str(raw.data.decode(errors="replace"))

    def delete_pods(self, namespace: str) -> None:
        """All of a namespace; waits until none is left."""
        delete = self._core.delete_collection_namespaced_pod
        work = partial(delete, namespace, grace_period_seconds=0, **_WITHIN)
        self.ask(f"pods of {namespace}", work)
        self._until_gone(f"pods of {namespace}", lambda: not self.pods(namespace))

    def delete_namespace(self, name: str) -> bool:
        """Deletes it with all that it owns; waits for its end. False: it was not there."""
        if not self.has_namespace(name):
            return False

        def work() -> None:
            try:
                self._core.delete_namespace(name, **_WITHIN)
            except self._kubernetes.client.ApiException as why:
                if why.status not in (404, 409):  # gone, or on its way
                    raise

        self.ask(f"namespace {name}", work)
        self._until_gone(f"namespace {name}", lambda: not self.has_namespace(name))
        return True

    def has_namespace(self, namespace: str) -> bool:
        return self.phase(namespace) is not None

    def phase(self, namespace: str) -> str | None:
        """A namespace's: `Active`, or `Terminating`, in which nothing can be made any more; None:
        it is not there."""

        def work() -> str | None:
            try:
                return str(self._core.read_namespace(namespace, **_WITHIN).status.phase)
            except self._kubernetes.client.ApiException as why:
                if why.status == 404:
                    return None
                raise

        return self.ask(f"namespace {namespace}", work)

    @staticmethod
    def _until_gone(what: str, gone: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DELETED_S
        while not gone():
            if time.monotonic() > deadline:
                raise HeadraceError(f"Kubernetes: {what}: still there after {_DELETED_S:.0f} s")
            time.sleep(_LOOK_S)

    # commands in containers --------------------------------------------------------------

    def open(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, stdin: bool
    ) -> CommandStream:
        """Open a command's stream; the caller closes it.

        The client does so without a limit of time: where the way is cut, the kernel would try for
        minutes. So the way is looked at before, by a request that has a limit."""
        self.version()
        options = {"stderr": True, "stdout": True, "stdin": stdin, "tty": False, **_RAW}
        work = partial(
            self._kubernetes.stream.stream, self._core.connect_get_namespaced_pod_exec, pod,
            namespace, container=container, command=list(command), **options,
        )  # fmt: skip
        client = self.ask(f"{pod}: {command[0]}", work)
        for option in _ALIVE:
            client.sock.sock.setsockopt(*option)
        return CommandStream(client.sock)

    def execute(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        given: bytes | None = None,
        timeout_s: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        """A command in a container, to its end. `given`: what it reads, of which it must know the
        end itself, as a stream is not half closed."""
        what = f"{pod}: {command[0]}"
        stream = self.open(namespace, pod, container, command, stdin=given is not None)
        deadline = time.monotonic() + timeout_s
        output = Output(what, _OUTPUT_MOST)
        try:
            for at in range(0, len(given or b""), _CHUNK_BYTES):
                chunk = (given or b"")[at : at + _CHUNK_BYTES]
                self.ask(what, partial(stream.write, chunk))
            while stream.open:
                frame = self.ask(what, lambda: stream.next(1))
                if frame is not None:
                    output.take(*frame)
                if time.monotonic() > deadline:
                    raise HeadraceError(f"{what} did not end in {timeout_s:.0f} s")
            status = stream.status()
        finally:
            stream.close()
        if status is None:
            raise HeadraceError(f"Kubernetes: {what}: the connection to the API server was lost")
        return subprocess.CompletedProcess(
            list(command), status, output.text(STDOUT), output.text(STDERR)
        )


def _files(kubeconfig: str) -> list[Path]:
    """Several are laid over each other."""
    return [Path(one).expanduser() for one in kubeconfig.split(os.pathsep) if one]


def _no_file(given: str | None) -> str:
    """`given`: the kubeconfig of a run before."""
    path = given or os.environ.get("KUBECONFIG")
    if not path:
        return "no kubeconfig: neither KUBECONFIG nor ~/.kube/config"
    where = f"nothing is at {printable(path)!r}"
    return f"no kubeconfig: {where}" if given else f"no kubeconfig: {where} (KUBECONFIG)"


def _told(why: Any) -> str:
    """What the API server says of a request that it refused."""
    return _message(why.body, why.reason or f"status {why.status}")


def _message(body: Any, otherwise: str) -> str:
    with contextlib.suppress(TypeError, ValueError, KeyError):
        otherwise = json.loads(body)["message"]
    return printable(" ".join(str(otherwise).split()))


def _is_network(why: Exception) -> bool:
    """Whether it is of the way to the server: urllib3's, the socket's, the stream's."""
    of = type(why).__module__.partition(".")[0]
    return of in ("urllib3", "websocket") or isinstance(why, OSError)


def _reason(why: Exception) -> str:
    while (inner := getattr(why, "reason", None)) is not None and isinstance(inner, Exception):
        why = inner
    text = printable(" ".join(str(why).split()))
    return text.rpartition(": ")[2] if "urllib3" in text else text or type(why).__name__
