"""Grafana's dashboard, made from code: `python -m devkit.dashboard` writes deploy/grafana."""
