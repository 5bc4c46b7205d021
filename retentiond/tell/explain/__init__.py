"""One partition or topic explained, from a plan and all that it was made from.

In comes an `ExplainedPlan`; out go the rule's figures, the groups' positions, and sentences.
"""
