"""File systems of a few megabytes, for brokers that are to run full (Linux, as root)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

MIB = 2**20


class CannotMount(Exception):
    """This host lets nobody mount a file system here."""


@contextmanager
def small_disks(folder: Path, *sizes: int) -> Iterator[tuple[Path, ...]]:
    """A tmpfs of each size, in bytes, below the folder. Raises `CannotMount`."""
    with ExitStack() as mounted:
        yield tuple(
            mounted.enter_context(_small_disk(folder / f"disk-{number}", size))
            for number, size in enumerate(sizes)
        )


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMount(getattr(error, "stderr", None) or str(error)) from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
