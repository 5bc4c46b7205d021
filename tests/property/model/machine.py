"""The machine: whatever happens in whatever order, the ledger has nothing to complain about."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from retentiond.model import GroupKind
from tests.fakes import HowDeletionEnds
from tests.property.model import changes
from tests.property.model.changes import Change
from tests.property.model.daemon import Daemon, careless, reckless, sound
from tests.property.model.hand import ENABLED, GROUPS, Hand
from tests.property.model.rules import HOUR_MS, Rules, all_rules

PLANS = {"sound": sound, "reckless": reckless, "careless": careless}

MOST_MOMENTS = 60
"""A cycle that deletes has about 50 of them."""

DISTURBANCES = ("kill", "kill", "kill", "stop", "cut", "leave out", "an operator")

some_endings = st.sampled_from([None, None, None, *HowDeletionEnds])

OPERATORS = ("pauses", "resumes", "resumes", "forgets", "accepts the loss")

before = st.sampled_from(["busy and well", "busy", "busy", "young", "young and ahead", "idle"])
"""What went on since the last cycle; the last but one has the host's clock an hour ahead."""

orders = st.integers(0, 2**10 - 1).map(lambda bits: [bits >> at & 1 == 1 for at in range(10)])

moments = st.one_of(
    st.integers(0, MOST_MOMENTS),
    st.sampled_from(
        [
            "list_groups",
            "commits",
            "members",
            "within remember",
            "after remember",
            "decide",
            "before intend",
            "after intend",
            "delete_records",
            "the answer",
            "before settle",
            "after settle",
        ]
    ),
)
"""Which one from the start of the cycle, or the first of a name."""

disturbing = st.lists(st.tuples(moments, changes.any_change), min_size=1, max_size=4)


Due = tuple[int | str, Change]


class Model(RuleBasedStateMachine):
    """``met`` counts what came up in all runs, so that a test can tell whether it was enough."""

    met: ClassVar[Counter[str]] = Counter()

    @initialize(rules=all_rules, start=st.sampled_from(["well", "well", "well", "empty"]))
    def begin(self, rules: Rules, start: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="model-"))
        self.hand = Hand()
        self.daemon = Daemon(self.root, rules, self.hand)
        self.ledger = self.daemon.ledger
        self.hand.create("bystander")
        self.hand.create("a", 2)
        self.hand.create("b")
        if start == "well":
            for topic in ("a", "b"):
                for number in range(2):
                    self.hand.produce(topic, number, 4, 3 * 3_600_000)
                    for group in ("g1", "g2"):
                        self.hand.commit(group, topic, number, 0)

    def teardown(self) -> None:
        if hasattr(self, "daemon"):
            self.daemon.end()
            type(self).met.update(self.ledger.met)
            shutil.rmtree(self.root)

    def change(self, change: Change, _moment: str = "") -> None:
        self.ledger.met[change.name] += 1
        change.of(self.hand)

    # What happens

    @rule(change=changes.of_records)
    def something_is_written(self, change: Change) -> None:
        self.change(change)

    @rule(change=changes.of_commits)
    def somebody_reads(self, change: Change) -> None:
        self.change(change)

    @rule(change=changes.of_groups)
    def a_group_changes(self, change: Change) -> None:
        self.change(change)

    @rule(change=changes.of_topics)
    def a_topic_changes(self, change: Change) -> None:
        self.change(change)

    @rule(change=changes.of_brokers)
    def something_breaks(self, change: Change) -> None:
        self.change(change)

    @rule(act=st.sampled_from(OPERATORS), group=changes.groups)
    def an_operator_acts(self, act: str, group: str) -> None:
        self._operator(act, group)

    def _operator(self, act: str, group: str) -> None:
        self.ledger.met[act] += 1
        match act:
            case "pauses":
                self.daemon.pause()
            case "resumes":
                self.daemon.resume()
            case "forgets":
                self.daemon.forget(group)
            case "accepts the loss":
                self.daemon.accept_losses()

    @rule(damaged=st.sampled_from([False, False, True]))
    def the_daemon_restarts(self, damaged: bool) -> None:
        self.daemon.end()
        if damaged:
            self.daemon.damage_memory()

    # Cycles

    @rule(before=before, order=orders)
    def a_cycle_runs(self, before: str, order: list[bool]) -> None:
        self._cycle(before, "sound", order)

    @rule(before=before, order=orders, due=disturbing, ending=some_endings)
    def a_cycle_runs_while_things_change(
        self, before: str, order: list[bool], due: list[Due], ending: HowDeletionEnds | None
    ) -> None:
        self._cycle(before, "sound", order, self._changes(due), ending)

    @rule(rare=changes.of_rare_states, order=orders, due=disturbing)
    def a_cycle_meets_what_is_rare(self, rare: Change, order: list[bool], due: list[Due]) -> None:
        """It takes a cycle that deletes and, before anything else breaks, another."""
        self._cycle("busy and well", "sound", ())
        self.change(rare)
        self.ledger.look()
        self._cycle("idle", "sound", order)
        self._cycle("idle", "sound", order, self._changes(due))

    @rule(before=before, plan=st.sampled_from(["reckless", "careless"]), due=disturbing)
    def a_wrong_plan_is_made(self, before: str, plan: str, due: list[Due]) -> None:
        self._cycle(before, plan, (), self._changes(due))

    @rule(topic=changes.topics, is_readable=st.booleans())
    def a_wrong_plan_overlooks_a_newcomer(self, topic: str, is_readable: bool) -> None:
        """One that has committed nothing yet, or of which nothing is known."""
        newcomer = GROUPS[2]
        self._be_busy("busy and well")
        self.hand.delete_group(newcomer)
        self.hand.join(newcomer, GroupKind.CLASSIC, [topic], patterns=False)
        if not is_readable:
            self.hand.fail_group("commits", newcomer)
        self._cycle("idle", "careless", ())

    @rule(
        before=before,
        at=moments,
        how=st.sampled_from(DISTURBANCES),
        group=changes.groups,
        ending=some_endings,
    )
    def a_cycle_is_disturbed(
        self, before: str, at: int | str, how: str, group: str, ending: HowDeletionEnds | None
    ) -> None:
        self._cycle(before, "sound", (), [(at, self._disturbance(how, group))], ending)

    def _changes(self, due: list[Due]) -> list[tuple[int | str, Callable[[str], None]]]:
        return [(at, partial(self.change, each)) for at, each in due]

    def _disturbance(self, how: str, group: str) -> Callable[[str], None]:
        daemon = self.daemon

        def disturb(moment: str) -> None:
            if how == "an operator" and moment == "within remember":
                return  # the file is locked, and the command would wait
            self.ledger.met[how] += 1
            match how:
                case "kill":
                    daemon.kill(moment)
                case "stop":
                    daemon.stop.is_asked = True
                case "cut":
                    daemon.witness.cut = True
                case "leave out":
                    daemon.witness.leave_out = True
                case "an operator":
                    self._operator("pauses", group)
                    self._operator("forgets", group)

        return disturb

    def _cycle(
        self,
        before: str,
        plan: str,
        order: Sequence[bool],
        due: Sequence[tuple[int | str, Callable[[str], None]]] = (),
        ending: HowDeletionEnds | None = None,
    ) -> None:
        if before != "idle":
            self._be_busy(before)
        if ending is not None:
            for topic in ENABLED:
                for number in range(2):
                    self.hand.end_next_deletion(topic, number, ending)
        self.daemon.moments.plan(due)
        self.ledger.met["cycles"] += 1
        self.daemon.cycle(PLANS[plan], order)
        self.daemon.calm_down()

    def _be_busy(self, before: str) -> None:
        """Records are written, old ones or young ones, and read."""
        age_ms = 0 if before.startswith("young") else 3 * HOUR_MS
        if before == "busy and well":
            self.hand.heal()
            self.daemon.resume()
        for topic in ENABLED:
            for number in range(2):
                self.hand.produce(topic, number, 3, age_ms)
            self.hand.catch_up(topic, 1)
        if before == "young and ahead":
            self.hand.skew(HOUR_MS)

    @invariant()
    def nothing_was_deleted_unasked(self) -> None:
        if hasattr(self, "daemon"):
            type(self).met["steps"] += 1
            self.ledger.look()
            self.ledger.check_log_starts()
