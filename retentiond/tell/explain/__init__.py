"""Explains a partition or a topic, from a plan and the evidence that it was made from.

In comes an `ExplainedPlan`; out go the rule's figures, the groups' positions, and sentences.
"""
