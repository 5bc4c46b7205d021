"""Kafka's own command line tools: answers that no line of this project had a part in."""

import subprocess

from devkit.embedded import processes
from devkit.embedded.errors import EmbeddedKafkaError
from devkit.embedded.jvm import find_jvm


def run(
    version: str,
    main_class: str,
    *arguments: str,
    check: bool = True,
    timeout_seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a tool, ``org.apache.kafka.tools.DeleteRecordsCommand`` for one, to its end.

    Its jars are fetched on first use. Raises EmbeddedKafkaError when ``check`` is set and the
    tool fails.
    """
    command = find_jvm(version, "tools").command(main_class, *arguments)
    done = processes.run(command, timeout_seconds)
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise EmbeddedKafkaError(f"{main_class} ended with exit code {done.returncode}: {said}")
    return done
