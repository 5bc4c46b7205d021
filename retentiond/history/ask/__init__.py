"""Answers questions about the past: what would a policy have done?

In come the recorded entries of a time and a policy to try; out go simulations, recommendations and
reports.
"""
