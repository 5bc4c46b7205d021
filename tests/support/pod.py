"""A container of a rendered pod, run without Kubernetes.

What the kubelet and the runtime would do, as far as tools of Linux do it: a mount namespace whose
root is read-only, the volumes of the pod as folders at their paths, the user and environment of the
image, no capabilities and none to gain. The network is that of the host. The product comes from
this Python, not from the image; there is no seccomp profile, and no limit of memory.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.support.brokers.command import Process
from tests.support.chart import Document
from tests.support.image import final, final_environment

Secrets = Mapping[str, Mapping[str, str]]
"""Each Secret's name, and its keys."""

BIN = Path(sys.executable).parent


LAYERS = """
mount -t tmpfs tmpfs {0} && mkdir {0}/upper {0}/work {0}/root &&
mount -t overlay overlay -o lowerdir=/,upperdir={0}/upper,workdir={0}/work {0}/root &&
mount --rbind /proc {0}/root/proc && mount --rbind /dev {0}/root/dev &&
exec chroot {0}/root {1} -c "import retentiond"
"""


def require_namespaces() -> None:
    """Skips the test where a root file system of one's own can't be had, or hides this Python.

    It does where the checkout lies on a file system of its own: an overlay shows one alone.
    """
    if BIN.is_relative_to("/tmp"):
        pytest.skip("this Python lies below /tmp, and a pod has a /tmp of its own")
    if os.geteuid() != 0:
        pytest.skip("a root file system of its own needs root")
    with tempfile.TemporaryDirectory() as folder:
        script = LAYERS.format(folder, sys.executable)
        tried = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
            capture_output=True,
            text=True,
            check=False,
        )
    if tried.returncode != 0:
        pytest.skip(f"no Python in a root file system of its own here: {tried.stderr.strip()}")


class Pod:
    """``documents``: all that Helm has rendered; ``folder`` keeps the volumes."""

    def __init__(
        self, spec: Document, documents: list[Document], secrets: Secrets, folder: Path
    ) -> None:
        self._spec = spec
        self._secrets = secrets
        self._folder = folder
        self._maps = {
            each["metadata"]["name"]: each["data"]
            for each in documents
            if each["kind"] == "ConfigMap"
        }
        self._group = spec["securityContext"]["fsGroup"]
        for volume in spec["volumes"]:
            self._make(volume)
        self._make_nested_mountpoints()

    def _make_nested_mountpoints(self) -> None:
        """The kubelet makes the folder of a mount below another one, in the latter's volume."""
        mounts = [each for of in self._spec["containers"] for each in of["volumeMounts"]]
        for outer in mounts:
            for inner in mounts:
                at = Path(inner["mountPath"])
                if inner["name"] != outer["name"] and at.is_relative_to(outer["mountPath"]):
                    below = at.relative_to(outer["mountPath"])
                    (self.volume(outer["name"]) / below).mkdir(parents=True, exist_ok=True)

    def volume(self, name: str) -> Path:
        """Where it is on this host; an empty one that no volume of the spec names is a claim's."""
        path = self._folder / name
        if not path.exists():
            path.mkdir()
            os.chown(path, 0, self._group)
            path.chmod(0o2775)  # as the kubelet does for an fsGroup
        return path

    def start(self, container: Document) -> Process:
        """The container's process: the shell gives its place to the next, up to retentiond."""
        script = "\n".join(self._script(container))
        shell = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]
        return Process(cwd=self._folder, command=shell)

    def run(self, container: Document) -> subprocess.CompletedProcess[str]:
        """One that ends by itself."""
        script = "\n".join(self._script(container))
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def _make(self, volume: Document) -> None:
        name = volume["name"]
        if "configMap" in volume:
            self._write(name, self._maps[volume["configMap"]["name"]], 0o644)
        elif "secret" in volume:
            secret = volume["secret"]
            self._write(name, self._secrets[secret["secretName"]], secret["defaultMode"])
        else:
            self.volume(name)

    def _write(self, name: str, files: Mapping[str, str], mode: int) -> None:
        for key, text in files.items():
            path = self.volume(name) / key
            path.write_text(text)
            os.chown(path, 0, self._group)
            path.chmod(mode)

    def _script(self, container: Document) -> Iterator[str]:
        stage = self._folder / f"stage-{container['name']}"
        stage.mkdir()
        root = stage / "root"
        yield f"mount -t tmpfs tmpfs {stage}"
        yield f"mkdir {stage}/upper {stage}/work {root}"
        layers = f"lowerdir=/,upperdir={stage}/upper,workdir={stage}/work"
        yield f"mount -t overlay overlay -o {layers} {root}"
        # The image has its Python and its user; on this host they may be out of sight.
        for parent in Path(os.path.realpath(sys.executable)).parents[:-1]:
            yield f"chmod o+x {root}{parent}"
        user, group = (int(part) for part in final("USER").split(":"))
        home = final("VOLUME")
        yield f"echo retentiond:x:{user}:{group}::{home}:/sbin/nologin >> {root}/etc/passwd"
        for mount in container["volumeMounts"]:
            yield from self._mount(mount, root)
        for part in ("proc", "sys", "dev"):
            yield f"mount --rbind /{part} {root}/{part}"
        if container["securityContext"]["readOnlyRootFilesystem"]:
            yield f"mount -o remount,ro {root}"
        security = self._spec["securityContext"]
        yield shlex.join(
            [
                *("exec", "chroot", str(root), "setpriv"),
                *("--reuid", str(security["runAsUser"]), "--regid", str(security["runAsGroup"])),
                *("--groups", str(security["fsGroup"]), "--no-new-privs"),
                *("--bounding-set=-all", "--inh-caps=-all"),
                *("env", "--ignore-environment", "--chdir", final("WORKDIR")),
                *(f"{name}={value}" for name, value in self._environment(container).items()),
                *container.get("command", ["retentiond"]),
                *container.get("args", []),
            ]
        )

    def _mount(self, mount: Document, root: Path) -> Iterator[str]:
        source = self.volume(mount["name"]) / mount.get("subPath", "")
        target = f"{root}{mount['mountPath']}"
        if source.is_dir():
            yield f"mkdir -p {target}"
        else:
            yield f"mkdir -p {Path(target).parent}; touch {target}"
        yield f"mount --bind {source} {target}"
        if mount.get("readOnly"):
            yield f"mount -o remount,bind,ro {target}"

    def _environment(self, container: Document) -> dict[str, str]:
        """The image's, with this Python's place and the host's in PATH; then the pod's."""
        image = final_environment()
        found = {**image, "PATH": f"{BIN}:{os.defpath}", "HOME": final("VOLUME")}
        for source in container.get("envFrom", []):
            found |= self._secrets[source["secretRef"]["name"]]
        for entry in container.get("env", []):
            if "value" in entry:
                found[entry["name"]] = entry["value"]
            else:
                ref = entry["valueFrom"]["secretKeyRef"]
                found[entry["name"]] = self._secrets[ref["name"]][ref["key"]]
        return found


def passes(probe: Document, container: Document) -> bool:
    """Whether the kubelet would count it as a success."""
    if "exec" in probe:
        command = [str(BIN / probe["exec"]["command"][0]), *probe["exec"]["command"][1:]]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    get = probe["httpGet"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    url = f"{get['scheme'].lower()}://127.0.0.1:{ports[get['port']]}{get['path']}"
    try:
        answer = httpx.get(url, verify=False, timeout=probe["timeoutSeconds"])
    except httpx.TransportError:
        return False
    return 200 <= answer.status_code < 400
