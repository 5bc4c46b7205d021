"""The first look at a cluster without a configuration.

In comes a plan of everything; out go its topics, who keeps the rest, and a configuration to start
from.
"""
