"""The page of the figures opens with what a user compares by."""

from devkit.bench.page import at_a_glance
from devkit.bench.result import Result


def test_the_summary_has_a_column_for_each_layout_and_the_largest_of_several_figures() -> None:
    results = [
        Result("M: gather", 0.19, "s"),
        Result("M: gather against the bare clients", 1.42, "x"),
        Result("L: gather", 0.26, "s"),
        Result("L: the same requests through the bare clients", 0.52, "s"),
        Result("L: both after 5 cycles", 620, "MiB"),
        Result("L: both after 50 cycles", 672, "MiB"),
        Result("decide on 100,000 commits", 0.26, "s"),
    ]

    assert at_a_glance(results) == [
        "| | M | L |",
        "|---|---:|---:|",
        "| the same requests through the bare clients |  | 0.52 s |",
        "| reading the cluster | 0.19 s | 0.26 s (0.5 x) |",
        "| memory of the daemon, Python and Java |  | 672 MiB |",
    ]
