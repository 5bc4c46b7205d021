"""A plug-in of pytest's: the tests of a trial plan on one Spark Connect server, which is warm."""

import os

from devkit.mutate import MASTER
from retentiond.spark import session
from retentiond.spark.session import SparkSessions

_sessions = SparkSessions(os.environ[MASTER], {})
setattr(session, "SparkSessions", lambda *_: _sessions)  # noqa: B010 - the fixture's
