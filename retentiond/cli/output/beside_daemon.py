"""Answers of a daemon that runs beside a command: asked for, and given.

The daemon makes the text that the command prints, by the same code, from what its last cycle read.
A command that only asks imports little, because that would take longer than the answer.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from retentiond.cli.output.printing import Look, Printer
from retentiond.config import Config
from retentiond.formatting import printable
from retentiond.tell.local_socket import NoAnswer, ask

if TYPE_CHECKING:
    from retentiond.tell.last_cycle import Answers, LastCycle


def answered(
    config: Config, question: str, about: Mapping[str, str], printer: Printer
) -> str | None:
    """What the daemon answers, as ``printer`` would print it. None if none runs here, or if it
    gives no answer, which is said on stderr: reading the cluster takes longer."""
    look = printer.look
    try:
        return ask(config, question, {**about, "width": str(look.width), "colors": look.colors})
    except NoAnswer as why:
        said = printable(f"the cluster is read anew, because the daemon gives no answer: {why}")
        print(f"retentiond: {said}", file=sys.stderr)
        return None


def _explain(cycle: LastCycle, about: Mapping[str, str]) -> str:
    from retentiond.cli.options import Output
    from retentiond.cli.output.explain import show, with_state
    from retentiond.clock import now_ms
    from retentiond.state.groups_lookup import recall_topic
    from retentiond.tell.explained_evidence import ExplainedPlan, partitions_at
    from retentiond.tell.explanation import explained

    topic = about["topic"]
    partition = int(about["partition"]) if about["partition"] else None
    config, report, snapshot = cycle.config, cycle.report, cycle.snapshot
    at = partitions_at(snapshot, topic, partition)
    evidence = ExplainedPlan(report, snapshot, recall_topic(config.state_dir, topic), {})
    found = explained(evidence, topic, [each.partition for each in at])
    text = io.StringIO()
    show(
        Printer(text, Look(int(about["width"]), about["colors"])),
        report,
        with_state(found, config, partition),
        Output(about["output"]),
        is_whole=partition is None,
        age_ms=max(0, now_ms() - report.plan.planned_at_ms),
    )
    return text.getvalue()


ANSWERS: Answers = {"explain": _explain}
