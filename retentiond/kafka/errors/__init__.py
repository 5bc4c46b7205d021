"""What is wrong with a connection or a request, as a sentence with what to do about it.

In come a server that could not be reached, and failures of either client; out go the
`KafkaUnavailable` to raise, and failures that name their remedy. Neither client is imported here.
"""
