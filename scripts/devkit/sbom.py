"""What is installed here, as CycloneDX: Debian's packages, Python's, and the jars of Spark.

Run by a container image's own Python, from stdin: ``scripts/image`` does. So it needs nothing else.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

Component = dict[str, str]

DEBIAN = "${Package}\t${Version}\t${Architecture}\n"

POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")

JAR = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")


def component(name: str, version: str, purl: str) -> Component:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }


def debian_packages() -> Iterator[Component]:
    listed = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={DEBIAN}"],
        check=True,
        capture_output=True,
        text=True,
    )
    for line in listed.stdout.splitlines():
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={architecture}"
        yield component(name, version, purl)


def python_packages() -> Iterator[Component]:
    for found in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        yield component(found.name, found.version, f"pkg:pypi/{name}@{found.version}")


def jars(folder: Path) -> Iterator[Component]:
    for path in sorted(folder.rglob("*.jar")):
        for group, name, version in coordinates(path):
            place = f"{group}/{name}" if group else name
            kind = "maven" if group else "generic"
            yield component(name, version, f"pkg:{kind}/{place}@{version}")


def coordinates(path: Path) -> Iterator[tuple[str, str, str]]:
    """Of the jar, and of those that were copied into it: by their own word, else by its name."""
    with zipfile.ZipFile(path) as archive:
        poms = [archive.read(name).decode() for name in archive.namelist() if POM.fullmatch(name)]
    for pom in poms:
        said = dict(line.split("=", 1) for line in pom.splitlines() if re.match(r"\w+=", line))
        yield said["groupId"], said["artifactId"], said["version"]
    if not poms:
        named = JAR.fullmatch(path.name)
        yield ("", named[1], named[2]) if named else ("", path.stem, "unknown")


def document(components: list[Component]) -> dict[str, object]:
    """Sorted, and without the time: of the same image it is always the same."""
    unique = {each["bom-ref"]: each for each in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "retentiond"}},
        "components": [unique[ref] for ref in sorted(unique)],
    }


def main() -> None:
    spark = Path(str(importlib.metadata.distribution("pyspark").locate_file("pyspark/jars")))
    found = [*debian_packages(), *python_packages(), *jars(spark)]
    json.dump(document(found), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
