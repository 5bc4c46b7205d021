"""The model: the real cycle on a cluster in memory, and a ledger that watches over it.

`hand` changes the world, `witness` stands between retentiond and the cluster and photographs
the truth as it asks, `ledger` judges each request by these photographs, `audited` compares the
audit log with what really happened, `daemon` runs cycles, kills them and starts again, `machine`
puts it all together for Hypothesis.
"""
