"""The configuration: one YAML file, parsed at the edge into frozen values.

In comes the text of a file with its environment; out goes a `Config`, with one policy for each
topic, or a `ConfigError` that names the setting.
"""

from retentiond.config.client_properties import Properties
from retentiond.config.config import Config, Http, Limits, Spark, Worthwhile
from retentiond.config.differences import Difference, differences
from retentiond.config.external_reader import ExternalReader
from retentiond.config.no_policy import NoPolicy, PolicyConflict, PolicyUnreadable
from retentiond.config.reader import load, parse
from retentiond.config.settings import TopicPolicy

__all__ = [
    "Config",
    "Difference",
    "ExternalReader",
    "Http",
    "Limits",
    "NoPolicy",
    "PolicyConflict",
    "PolicyUnreadable",
    "Properties",
    "Spark",
    "TopicPolicy",
    "Worthwhile",
    "differences",
    "load",
    "parse",
]
