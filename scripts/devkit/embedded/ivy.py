"""Fetches jars from Maven Central with the Ivy resolver that PySpark ships."""

import importlib.util
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.embedded import processes
from devkit.embedded.processes import EmbeddedKafkaError, find_java

FETCH_TIMEOUT_SECONDS = 900
# Ivy's own name for Maven Central stands behind "central"; without POMs it reads the jars alone.
SETTINGS_WITHOUT_POMS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
# The name space is Ivy's for what only Maven knows, classifiers among it.
MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="devkit" module="kafka"/>
  <configurations><conf name="runtime"/></configurations>
  <dependencies>{}</dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """A jar's place in a Maven repository, written ``organisation:name:revision``, and
    ``:classifier`` behind it where it is not the module's main jar."""

    organisation: str
    name: str
    revision: str
    classifier: str = ""

    @classmethod
    def parse(cls, text: str) -> "Coordinate":
        return cls(*text.split(":"))

    def __str__(self) -> str:
        parts = (self.organisation, self.name, self.revision, self.classifier)
        return ":".join(part for part in parts if part)

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{classifier}.jar"


def retrieve(
    coordinates: Sequence[Coordinate], directory: Path, *, transitive: bool
) -> list[Coordinate]:
    """Put the jars into ``directory`` and tell what came.

    ``transitive`` follows the POMs: about a minute for a broker. Without it, exactly the named
    jars come, several times faster. Raises EmbeddedKafkaError when one can't be had.
    """
    with tempfile.TemporaryDirectory(prefix="retentiond-ivy-") as scratch:
        work = Path(scratch)
        (work / "ivy.xml").write_text(_module(coordinates, transitive=transitive))
        (work / "settings.xml").write_text(SETTINGS_WITHOUT_POMS)
        options = [] if transitive else ["-settings", str(work / "settings.xml")]
        done = processes.run(
            [
                *(find_java().path, "-cp", str(_ivy_jar()), "org.apache.ivy.Main", *options),
                *("-ivy", str(work / "ivy.xml"), "-confs", "runtime"),
                *("-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]"),
                *("-cache", str(work / "cache")),
            ],
            timeout_seconds=FETCH_TIMEOUT_SECONDS,
        )
        if done.returncode != 0:
            raise EmbeddedKafkaError(
                f"{coordinates[0]} could not be fetched from Maven Central"
                f" ({_first_problem(done.stdout + done.stderr)}): check the network; a proxy is"
                " given to Java by JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=... -Dhttps.proxyPort=..."
            )
        return _resolved(work / "cache" / "devkit-kafka-runtime.xml")


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    jars = (
        [] if spec is None or spec.origin is None else Path(spec.origin).parent.glob("jars/ivy-*")
    )
    for jar in jars:
        return jar
    raise EmbeddedKafkaError(
        "PySpark, which ships the Ivy resolver, is missing: run scripts/setup."
    )


def _module(coordinates: Sequence[Coordinate], *, transitive: bool) -> str:
    def dependency(jar: Coordinate) -> str:
        artifact = (
            f'<artifact name="{jar.name}" type="jar" ext="jar" m:classifier="{jar.classifier}"/>'
            if jar.classifier
            else ""
        )
        return (
            f'<dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.revision}"'
            f' conf="runtime->default" transitive="{str(transitive).lower()}">{artifact}'
            "</dependency>"
        )

    return MODULE.format("".join(map(dependency, coordinates)))


def _resolved(report: Path) -> list[Coordinate]:
    """The jars of Ivy's report, less what a newer revision evicted."""
    return sorted(
        Coordinate(module.attrib["organisation"], module.attrib["name"], revision.attrib["name"])
        for module in ET.parse(report).iter("module")
        for revision in module.iter("revision")
        if revision.find("artifacts/artifact") is not None
    )


def _first_problem(output: str) -> str:
    marks = ("UnknownHost", "timed out", "Exception", "unresolved dependency", "not found")
    lines = [" ".join(line.split()) for line in output.splitlines()]
    return next((line for mark in marks for line in lines if mark in line), "Ivy gave no reason")
