"""``retentiond report``: what was deleted and saved, and what is kept for whom."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import SINCE, ConfigPath, Debug, gone, load, matching, set_up
from retentiond.cli.output.files import refuse_without_folder, replace_file
from retentiond.cli.past.options import ClusterId, answered, asked_questions, cluster_called, period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.history.ask.past import Past
    from retentiond.history.ask.report_figures import Report


class ReportOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    HTML = "html"


def report(  # noqa: PLR0917 - typer hands each option over by its name
    config: ConfigPath = None,
    since: Annotated[str, SINCE] = "7d",
    cluster: ClusterId = None,
    output: Annotated[
        ReportOutput,
        typer.Option(
            "--output",
            "-o",
            help="How the result is printed; html is one file with charts that opens without a "
            "network.",
        ),
    ] = ReportOutput.TABLE,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to this file instead of stdout."),
    ] = None,
    price: Annotated[
        str | None, gone("--price-per-gib-month", "report says bytes, and no longer money")
    ] = None,
    debug: Debug = False,
) -> None:
    """Report what was deleted and saved, what groups have yet to read, and when disks fill.

    It also lists topics that nobody reads and groups that have stopped committing. Neither the
    cluster nor the daemon is asked.

    Example: retentiond report --since 30d --output html --file report.html

    Example: retentiond report --output json | jq .total
    """
    if file is not None:
        refuse_without_folder(file)
    from retentiond.cli.output.report import html, json_text, table_text
    from retentiond.history.ask.replay import Replay
    from retentiond.history.ask.report import report as reported
    from retentiond.history.ask.report import without_retentiond

    loaded, asked = load(set_up(config, debug)), period(since)

    def question(past: Past, session: SparkSession) -> Report:
        questions = asked_questions(past, matching(None), loaded.policy_for)
        return reported(
            Replay(past, session, [without_retentiond(question) for question in questions])
        )

    answer = answered(loaded, asked, question, cluster=cluster)
    if output is ReportOutput.JSON:
        text = json_text(answer)
    else:
        as_text = html if output is ReportOutput.HTML else table_text
        text = as_text(answer, cluster_called(answer.past, loaded))
    if file is None:
        typer.echo(text, nl=False)
        return
    replace_file(file, text)
