"""What must hold in the end."""

from collections.abc import Iterator

from devkit import audit
from devkit.demo.daemon import STOP_SECONDS, Daemon
from devkit.demo.scenario import TOPICS
from devkit.demo.stage import Stage


def problems_of_run(stage: Stage, freed_bytes: int) -> Iterator[str]:
    """A sentence for each thing that went wrong while all was at work."""
    wrong = [*stage.faults(), *stage.troubles()]
    yield from wrong
    if not wrong:  # else it has ended early, and much is unread
        for group, records in stage.unread().items():
            yield f"group {group} has not read {records:,} records"
    if not freed_bytes:
        yield "nothing was freed on disk"


def problems_of_end(daemon: Daemon) -> Iterator[str]:
    """End the daemon, if it runs; a sentence unless it does that as it should."""
    ended = daemon.stop(2 * STOP_SECONDS)
    if ended is None:
        return
    seconds, code = ended
    if code != 0 or seconds > STOP_SECONDS:
        yield (
            f"SIGTERM ended the daemon after {seconds:.1f} s with exit code {code}, "
            f"and should within {STOP_SECONDS:g} s with 0"
        )


def problems_of_record(stage: Stage) -> Iterator[str]:
    """A sentence for each deletion that was not to be, or of which the audit log is wrong."""
    for topic in TOPICS:
        if not topic.emptied and (deleted := stage.deleted(topic)):
            yield f"{deleted:,} records of {topic.name} were deleted, and none may be"
    deletions = audit.read(stage.daemon.state_dir)
    for topic_name, number in sorted({each.partition for each in deletions}):
        if (topic_name, number) not in stage.log_starts:
            yield f"{topic_name}-{number} was deleted from, and is no partition of the demo"
    yield from audit.contradictions(deletions, stage.log_starts)
