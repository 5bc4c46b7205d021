"""How a Java program of a Kafka version is called."""

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from devkit.embedded import jars
from devkit.embedded.jars import Part
from devkit.embedded.processes import Java, find_java

LOGGING = Path(__file__).with_name("logging")
# Short-lived processes on few cores: no time for the second compiler or a concurrent collector.
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java with a Kafka version on its class path.

    ``class_archive`` holds the loaded classes of an earlier broker, which halves the start (2.4 s
    to 1.2 s on two cores). The JVM writes it at the clean end of a run with ``record``.
    """

    java: str
    classpath: str
    logging: str
    class_archive: Path

    def command(
        self,
        main_class: str,
        *arguments: str,
        options: tuple[str, ...] = (),
        log_level: Literal["INFO", "WARN"] = "WARN",
        record: Path | None = None,
    ) -> list[str]:
        """The command line; ``record`` is where this run leaves a class archive at its end."""
        if record is not None:
            archive = [f"-XX:ArchiveClassesAtExit={record}"]
        elif self.class_archive.exists():
            archive = [f"-XX:SharedArchiveFile={self.class_archive}"]
        else:
            archive = []
        return [
            *(self.java, *FAST_START, *QUIET, *archive, *options),
            *(self.logging, f"-Ddevkit.log.level={log_level}"),
            *("-cp", self.classpath, main_class, *arguments),
        ]

    def new_archive(self) -> Path:
        """A place beside the class archive for one that is being recorded."""
        return self.class_archive.with_suffix(f".{uuid.uuid4().hex}")

    def keep_archive(self, recorded: Path) -> None:
        """Give a recorded archive to all who come later."""
        if recorded.exists():
            recorded.replace(self.class_archive)


def find_jvm(version: str, *parts: Part) -> Jvm:
    """Fetches the jars of ``parts`` if need be; the broker's come first on the class path.

    Raises EmbeddedKafkaError.
    """
    java = find_java()
    broker = jars.folder(version, "broker")
    if jars.major_version(version) >= 4:
        logging = f"-Dlog4j2.configurationFile={LOGGING / 'log4j2.properties'}"
    else:
        logging = f"-Dlog4j.configuration={(LOGGING / 'log4j.properties').as_uri()}"
    return Jvm(
        java=java.path,
        classpath=jars.classpath(version, "broker", *parts),
        logging=logging,
        class_archive=broker / f"classes-{_fingerprint(java, broker)}.jsa",
    )


def _fingerprint(java: Java, folder: Path) -> str:
    """What a class archive holds for: a JVM refuses that of another build or of touched jars."""
    digest = hashlib.sha256(java.banner.encode())
    for jar in sorted(folder.glob("*.jar")):
        digest.update(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
