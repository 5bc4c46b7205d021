"""The test bench that attacks retentiond's one promise: see ``scripts/ledger``.

Real producers write, real consumers read, lag, stop, rewind and join late on three brokers, while
the daemon deletes what is consumed and everything is killed now and then. Each of them enters
what it did into one book (`devkit.ledger.book`), and in the end the book, the audit log and the
brokers are held against each other by the rule that `devkit.ledger.promise` states.
"""
