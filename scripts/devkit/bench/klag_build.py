"""klag-exporter, built with cargo into build/: once for a version, in several minutes."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

VERSION = "0.1.29"

FOLDER = Path(__file__).resolve().parents[3] / "build" / f"klag-exporter-{VERSION}"

SASL = "libsasl2"
"""What the exporter's librdkafka is linked with: the library as pkg-config knows it."""

SASL_PACKAGE = "libsasl2-dev"
"""Debian's package of its headers."""


def program(say: Callable[[str], None], folder: Path = FOLDER) -> Path | None:
    """Where it is, built if it wasn't. None where that can't be done, which ``say`` is told."""
    built = folder / "bin" / "klag-exporter"
    if built.exists():
        return built
    if shutil.which("cargo") is None:
        say("klag-exporter is left out: there is no cargo here.")
        return None
    say(f"building klag-exporter {VERSION}, once; this takes several minutes ...")
    folder.mkdir(parents=True, exist_ok=True)
    log_file = folder / "build.log"
    with log_file.open("w") as log:
        environment = {**os.environ, **_sasl(folder / "sasl", log)}
        done = _logged(command(folder), log, environment)
    if not done:
        say(f"klag-exporter is left out: it could not be built, see {log_file}")
        return None
    return built


def command(root: Path) -> list[str]:
    """What builds it, with the libraries that it was released with.

    Its librdkafka wants curl's headers too, whether they are installed or not: curl-static
    brings them along.
    """
    return [
        *("cargo", "install", "klag-exporter", "--version", VERSION, "--locked"),
        *("--features", "curl-static", "--root", str(root)),
    ]


def _sasl(folder: Path, log: IO[str]) -> dict[str, str]:
    """The environment in which the build finds libsasl2.

    Where it is not installed for building, Debian's package is unpacked beside the program; nothing
    is installed. Where that can't be done, the build fails, and its log says why.
    """
    tools = ("pkg-config", "apt-get", "dpkg-deb")
    if not all(map(shutil.which, tools)) or _logged(["pkg-config", "--exists", SASL], log):
        return {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _logged(["apt-get", "download", SASL_PACKAGE], log, folder=folder)
    for package in folder.glob("*.deb"):
        _logged(["dpkg-deb", "-x", str(package), str(folder)], log)
    for description in folder.glob(f"usr/lib/*/pkgconfig/{SASL}.pc"):
        _move(description, folder)
        return {"PKG_CONFIG_PATH": str(description.parent)}
    return {}


def _move(description: Path, folder: Path) -> None:
    """Makes what was unpacked in ``folder`` as usable as if it were installed."""
    text = description.read_text()
    description.write_text(text.replace("prefix=/usr", f"prefix={folder}/usr", 1))
    # The library itself is in another package, which programs that are installed need too.
    link = description.parents[1] / f"{SASL}.so"
    link.unlink()
    link.symlink_to(Path("/", link.relative_to(folder)).with_suffix(".so.2"))


def _logged(
    command: Sequence[str],
    log: IO[str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> bool:
    """Whether it ended well."""
    return (
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
            check=False,
        ).returncode
        == 0
    )
