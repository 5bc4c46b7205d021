"""Answers of a daemon that runs beside a command: asked for, and given.

The daemon makes the text that the command prints, by the same code, from what its last cycle read.
A command that only asks imports little, because that would take longer than the answer.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from retentiond.cli.output.printing import Look, Printer
from retentiond.cli.output.streams import say_aside
from retentiond.config import Config
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
        say_aside(f"the cluster is read anew, because the daemon gives no answer: {why}")
        return None


def seen_document(age_ms: int | None) -> dict[str, object]:
    """In JSON. ``age_ms``: of the daemon's last cycle; None: the cluster was read."""
    return {"answered_by": "reading" if age_ms is None else "daemon", "age_ms": age_ms or 0}


def _groups(cycle: LastCycle, _about: Mapping[str, str]) -> str:
    """The cluster's groups, as JSON with ``age_ms``. The command itself knows what is remembered of
    them; the topics of the others are not known, unless they are enabled."""
    from retentiond.errors import KafkaUnavailable
    from retentiond.snapshot import ABSENT, VANISHED

    if problems := cycle.report.problems:  # a reading says so, and may be luckier
        raise KafkaUnavailable(problems[0])
    groups = [
        {"group": group.name, "kind": group.kind.value}
        for group in cycle.snapshot.groups
        if group.state not in (ABSENT, VANISHED) and not group.is_external
    ]
    return json.dumps({"age_ms": cycle.age_ms, "groups": groups})


def _explain(cycle: LastCycle, about: Mapping[str, str]) -> str:
    from retentiond.cli.options import Output
    from retentiond.cli.output.explain import show, with_state
    from retentiond.state.groups_lookup import recall_topic
    from retentiond.tell.explained_evidence import ExplainedPlan, partitions_at
    from retentiond.tell.explanation import explained

    topic = about["topic"]
    partition = int(about["partition"]) if about["partition"] else None
    config, report, snapshot = cycle.config, cycle.report, cycle.snapshot
    at = partitions_at(snapshot, topic, partition)
    evidence = ExplainedPlan(report, snapshot, recall_topic(config.state_dir, topic), {})
    explanation = explained(evidence, topic, [row.partition for row in at])
    explanation = replace(with_state(explanation, config, partition), age_ms=cycle.age_ms)
    text = io.StringIO()
    printer = Printer(text, Look(int(about["width"]), about["colors"]))
    show(printer, report, explanation, Output(about["output"]), is_whole=partition is None)
    return text.getvalue()


ANSWERS: Answers = {"explain": _explain, "groups": _groups}
