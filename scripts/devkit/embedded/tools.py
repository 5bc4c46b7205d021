"""Kafka's own command line tools: answers that no line of this project had a part in."""

import subprocess

from devkit.embedded import jars, processes
from devkit.embedded.jvm import find_jvm
from devkit.embedded.processes import EmbeddedKafkaError

SINCE = (3, 7)
"""From this release on the tools have their names of today."""

FORMERLY = {
    "org.apache.kafka.tools.GetOffsetShell": "kafka.tools.GetOffsetShell",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka.admin.DeleteRecordsCommand",
}


def run(
    version: str, main_class: str, *arguments: str, timeout_seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a tool, ``org.apache.kafka.tools.DeleteRecordsCommand`` for one, to its end.

    Its jars are fetched on first use; a release that has it by its former name runs it by that.
    Raises EmbeddedKafkaError when the tool fails.
    """
    version = jars.beside(version)
    if tuple(map(int, version.split("."))) < SINCE:
        main_class = FORMERLY.get(main_class, main_class)
    command = find_jvm(version, "tools").command(main_class, *arguments)
    done = processes.run(command, timeout_seconds)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise EmbeddedKafkaError(f"{main_class} ended with exit code {done.returncode}: {said}")
    return done
