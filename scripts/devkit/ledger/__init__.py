"""The test bench that attacks retentiond's one promise: see ``scripts/ledger``.

Real producers write, real consumers read on three brokers and on a second cluster (`stage`,
`writers`, `keeper`, `readers`, `group_member`), while the `daemon` deletes what is
consumed and everything is killed, misled and recreated now and then (`faults`, `play`). Each of
them enters what it did into one `book`, and in the end the book, the audit log (`audit`) and the
brokers are held against each other: `judge` says what harm is, in a reader's words.
"""
