"""The long-lived process, which runs one cycle after another until a signal ends it.

In come a configuration, signals and the time; out go cycles, log lines and the HTTP port.
"""
