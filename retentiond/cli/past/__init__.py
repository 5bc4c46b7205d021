"""The commands that ask the recorded past. In: a period, and a policy to try. Out: what
`retentiond.cli.output` shows."""
