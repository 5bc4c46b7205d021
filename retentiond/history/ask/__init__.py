"""What the past says of a policy.

In come the recorded entries of a time and a policy that is tried; out go simulations,
recommendations and reports.
"""
