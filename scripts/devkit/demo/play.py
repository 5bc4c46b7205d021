"""The demo from its first record to its last."""

import time
from collections.abc import Callable
from contextlib import suppress

from devkit.demo.scenario import TOPICS
from devkit.demo.stage import Stage
from devkit.demo.view import View

STEP_SECONDS = 0.5
CATCH_UP_SECONDS = 30.0
FREE_SECONDS = 30.0
PLAN_SECONDS = 60.0  # Spark takes its time to start on a busy machine

GROUPS = tuple((topic, group) for topic in TOPICS for group in topic.groups)
LEAVING = tuple((topic, group) for topic, group in GROUPS if group.leaves)
SLOW = tuple((topic, group) for topic, group in GROUPS if group.behind_seconds)


class Breakdown(Exception):
    """Something has broken down, or a record was missed: going on would show nothing more."""


def play(stage: Stage, view: View, seconds: float) -> None:
    """Return when all is read and what can be deleted is gone, when that takes too long, or when
    something goes wrong.

    Records are written for ``seconds``, less after Ctrl-C, more when the daemon is slow.
    """
    stage.start()
    view.tell(f"retentiond is starting: {stage.daemon.url}/metrics")
    with suppress(Breakdown):
        with suppress(KeyboardInterrupt):  # another one ends all at once
            _follow(stage, view, seconds / 2)
            _follow(stage, view, PLAN_SECONDS, lambda: stage.has_plan)
            _stop_groups(stage, view)
            _follow(stage, view, seconds / 2)
            _follow(stage, view, PLAN_SECONDS, lambda: _all_kept(stage))
        view.show(stage.figures(), now=True)
        _end(stage, view)
    view.show(stage.figures(), now=True)


def _stop_groups(stage: Stage, view: View) -> None:
    for topic, group in LEAVING:
        stage.readers[group.name].stop()
        view.tell(
            f"group {group.name} stops, {stage.accounts[group.name].records:,} records of "
            f"{topic.name} read: the rest must stay until it is back"
        )


def _all_kept(stage: Stage) -> bool:
    return all(stage.kept_for(topic, group) for topic, group in LEAVING)


def _end(stage: Stage, view: View) -> None:
    stage.writer.stop()
    view.tell("the producer has stopped, the groups read what is left")
    unread = stage.unread()
    for topic, group in (*LEAVING, *SLOW):
        # A new consumer, which has fetched nothing ahead: it needs every record from the
        # group's commit on.
        stage.readers[group.name].stop()
        stage.start_reader(group.name)
        why = ", which stayed on disk because of it" if stage.kept_for(topic, group) else ""
        view.tell(
            f"group {group.name} has a new consumer, to read {unread.get(group.name, 0):,} "
            f"records of {topic.name}{why}"
        )
    _follow(stage, view, CATCH_UP_SECONDS, lambda: not stage.unread())
    view.tell("what every group has read is being deleted and freed on disk")
    _follow(stage, view, FREE_SECONDS, stage.freed_all)
    if not stage.freed_all():
        view.tell(f"not all of that was freed in {FREE_SECONDS:g} s")


def _follow(
    stage: Stage, view: View, seconds: float, until: Callable[[], bool] = lambda: False
) -> None:
    """Show how it goes, until that holds or the time is up. Raises Breakdown."""
    end = time.monotonic() + seconds
    while not until() and (left := end - time.monotonic()) > 0:
        if any(stage.troubles()) or stage.faults():
            raise Breakdown
        stage.look()
        view.show(stage.figures())
        time.sleep(min(STEP_SECONDS, left))
