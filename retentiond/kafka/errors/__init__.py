"""What is wrong with a connection or a request, as a sentence with what to do about it.

In come errors and logs of both clients; out go a `Failure` for one answer, and `KafkaUnavailable`
where there can't be any.
"""
