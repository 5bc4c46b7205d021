"""A smaller Spark: links to the jars that a plan needs, and a process without pandas.

Whenever a name is in no jar, Java has opened every one of them to find that out, and keeps the
table of contents of each for good; and for each kind of table that a jar brings along, Spark loads
what it takes to read it. Without Hive, Kubernetes and machine learning the JVM is 45 MB smaller,
and starts a second sooner.

PySpark and pyarrow import it wherever it is installed, only to see whether they were given one of
its tables: a seventh of the daemon's own memory, and half a second of its start. PySpark's client
of Spark Connect does need it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pyspark

PYSPARK = Path(pyspark.__file__).parent

HOME = Path(sys.prefix) / "share" / "retentiond" / f"spark-{pyspark.__version__}"
"""What `retentiond.spark.class_archive` makes once for an installation, if somebody has it do
so."""

NEEDLESS = (
    # Hive's catalogue of tables
    *("hive-", "spark-hive", "datanucleus-", "derby"),
    # Kubernetes as a master
    *("kubernetes-", "spark-kubernetes", "volcano-", "vertx-"),
    # machine learning (jts stays: Parquet's reader refers to it)
    *("spark-mllib", "breeze", "spire", "cats-", "arpack", "JTransforms"),
    # the server of Spark Connect, the Scala shell, and standby masters
    *("spark-connect", "spark-repl", "scala-compiler", "curator-", "zookeeper"),
)
"""How the names of the jars begin that are left out. What is small stays, whatever it is for."""

SERVED = ("local", "spark://")
"""How the masters begin whose drivers do without them."""


def environment(master: str) -> Mapping[str, str]:
    """What has PySpark start this Spark for such a master, where there is one whose links lead
    somewhere."""
    is_there = (HOME / "bin" / "spark-submit").exists()
    return {"SPARK_HOME": str(HOME)} if is_there and master.startswith(SERVED) else {}


def make(home: Path) -> None:
    """Raises OSError."""
    unfinished = home.with_name(f".{home.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "jars").mkdir(parents=True)
    for part in ("bin", "python"):
        (unfinished / part).symlink_to(PYSPARK / part)
    for jar in (PYSPARK / "jars").glob("*.jar"):
        if not jar.name.startswith(NEEDLESS):
            (unfinished / "jars" / jar.name).symlink_to(jar)
    shutil.rmtree(home, ignore_errors=True)
    os.rename(unfinished, home)


class _Hidden(MetaPathFinder):
    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


_HIDDEN = _Hidden()


def hide_pandas() -> None:
    """From now on, and for the whole process: as if it were not installed."""
    if _HIDDEN not in sys.meta_path:
        sys.meta_path.insert(0, _HIDDEN)


def show_pandas() -> None:
    """As before `hide_pandas`."""
    if _HIDDEN in sys.meta_path:
        sys.meta_path.remove(_HIDDEN)
