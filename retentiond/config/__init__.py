"""The configuration: one YAML file, parsed at the edge into frozen values."""

from retentiond.config.config import Config, Http, Limits, Schedule, Spark
from retentiond.config.policy import PolicyConflict, TopicPolicy
from retentiond.config.properties import Properties
from retentiond.config.reader import load, load_http, parse
from retentiond.config.topics import ExternalReader
from retentiond.config.words import describe

__all__ = [
    "Config",
    "ExternalReader",
    "Http",
    "Limits",
    "PolicyConflict",
    "Properties",
    "Schedule",
    "Spark",
    "TopicPolicy",
    "describe",
    "load",
    "load_http",
    "parse",
]
