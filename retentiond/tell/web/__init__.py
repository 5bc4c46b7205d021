"""The HTTP port: who may connect, and what is served there besides the status page."""
