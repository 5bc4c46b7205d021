"""Which of the platform's options for every Java reach Spark's JVM."""

from __future__ import annotations

import pytest

from retentiond.spark.java_options import PlatformOptions, platform_options, without_variables


def test_without_such_a_variable_there_are_none() -> None:
    assert platform_options({"PATH": "/bin", "JAVA_TOOL_OPTIONS": ""}) == PlatformOptions()


def test_they_stand_in_java_s_order_and_quotations_are_java_s() -> None:
    environment = {
        "_JAVA_OPTIONS": "-Dc=3",
        "JDK_JAVA_OPTIONS": "--add-opens  java.base/x=ALL-UNNAMED\t@more",
        "JAVA_TOOL_OPTIONS": """-javaagent:"/a b".jar '-Da=1 "\\' -Db=#""",
    }
    assert platform_options(environment) == PlatformOptions(
        first=(
            *("-javaagent:/a b.jar", '-Da=1 "\\', "-Db=#"),
            *("--add-opens", "java.base/x=ALL-UNNAMED"),
        ),
        last=("-Dc=3",),
        files=("@more",),
        variables=("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    )


@pytest.mark.parametrize(
    ("option", "is_of_memory"),
    [
        ("-Xms256m", True),
        ("-Xmx1g", True),
        ("-Xmn64m", True),
        ("-XX:+UseG1GC", True),
        ("-XX:-UseParallelGC", True),
        ("-XX:+AggressiveHeap", True),
        ("-XX:MaxRAMPercentage=75.0", True),
        ("-XX:InitialHeapSize=2g", True),
        ("-XX:MaxRAM=4g", True),
        ("-XX:MaxNewSize=1g", True),
        ("-Xss1m", False),
        ("-XX:+UseStringDeduplication", False),
        ("-XX:+UseGCOverheadLimit", False),
        ("-XX:MaxMetaspaceSize=256m", False),
        ("-XX:+HeapDumpOnOutOfMemoryError", False),
        ("-Dms=1", False),
    ],
)
def test_those_of_memory_are_left_out(option: str, is_of_memory: bool) -> None:
    for variable in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        found = platform_options({variable: option})
        assert found.left_out == ((option,) if is_of_memory else ())
        assert (*found.first, *found.last) == (() if is_of_memory else (option,))


def test_a_quotation_without_an_end_is_an_error_that_names_the_variable() -> None:
    with pytest.raises(ValueError, match="_JAVA_OPTIONS has a quotation"):
        platform_options({"_JAVA_OPTIONS": "-Da='b"})


def test_no_process_inherits_the_variables() -> None:
    given = {"JAVA_TOOL_OPTIONS": "1", "JDK_JAVA_OPTIONS": "2", "_JAVA_OPTIONS": "3", "A": "4"}
    assert without_variables(given) == {"A": "4"}
