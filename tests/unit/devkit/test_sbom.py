"""What an image's list of contents holds, of jars above all, which have no package manager."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

from devkit import sbom

POM = "groupId=org.example\nartifactId=thing\nversion=1.2\n"


def jar(folder: Path, name: str, **files: str) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "")
        for artifact, text in files.items():
            archive.writestr(f"META-INF/maven/org.example/{artifact}/pom.properties", text)
    return path


def purls(folder: Path) -> list[str]:
    return [each["purl"] for each in sbom.jars(folder)]


def test_a_jar_says_itself_which_it_is(tmp_path: Path) -> None:
    jar(tmp_path, "renamed.jar", thing=f"#made by hand\n{POM}")
    assert purls(tmp_path) == ["pkg:maven/org.example/thing@1.2"]


def test_what_was_copied_into_a_jar_is_named_too(tmp_path: Path) -> None:
    jar(tmp_path, "thing-1.2.jar", thing=POM, other=POM.replace("thing", "other"))
    assert purls(tmp_path) == [
        "pkg:maven/org.example/thing@1.2",
        "pkg:maven/org.example/other@1.2",
    ]


def test_a_jar_that_says_nothing_goes_by_its_name(tmp_path: Path) -> None:
    jar(tmp_path, "scala-library-2.13.16.jar")
    jar(tmp_path, "nameless.jar")
    assert purls(tmp_path) == ["pkg:generic/nameless@unknown", "pkg:generic/scala-library@2.13.16"]


def test_pythons_packages_are_those_that_are_installed() -> None:
    found = {each["name"]: each["version"] for each in sbom.python_packages()}
    assert found["pyspark"] == importlib.metadata.version("pyspark")


def test_the_document_is_the_same_each_time_and_names_nothing_twice() -> None:
    made = [sbom.component(name, "1", f"pkg:pypi/{name}@1") for name in ("b", "a", "b")]
    document = sbom.document(made)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["components"] == [made[1], made[0]]
