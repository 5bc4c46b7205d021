"""Protocol messages that kafka-python 3.0.12 lacks, and those that it is too slow for.

In come the partitions and groups that a request is about, and the bytes of a response; out go
requests for kafka-python to send, and responses as values or columns.

kafka-python makes encoders and decoders of the JSON definitions beside this file. They hold the
field names, types and order of Kafka's own message format, for one version each. Each can go once
kafka-python brings it. `retentiond.kafka.wire.by_hand` has what is encoded and decoded by hand.
"""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-848: what the members of consumer groups subscribe to."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE): ...  # type: ignore[misc,call-arg]  # untyped base


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-932: what the members of share groups subscribe to."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE): ...  # type: ignore[misc,call-arg]  # untyped base


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-932: the share-partition start offsets, a share group's bound."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_HERE): ...  # type: ignore[misc,call-arg]  # untyped base


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-1071: what a streams group's topology reads."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE): ...  # type: ignore[misc,call-arg]  # untyped base
