"""Protocol messages that kafka-python 3.0.12 lacks, from the JSON definitions beside this file.

The definitions hold the field names, types and order of Kafka's own message format, for one
version each; kafka-python makes encoders and decoders of them. Each can go once kafka-python
brings it.
"""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-848: what the members of consumer groups subscribe to."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """Answer to `ConsumerGroupDescribeRequest`."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-932: what the members of share groups subscribe to."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """Answer to `ShareGroupDescribeRequest`."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-932: the share-partition start offsets, a share group's bound."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """Answer to `DescribeShareGroupOffsetsRequest`."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """KIP-1071: what a streams group's topology reads."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[misc,call-arg]  # untyped base
    """Answer to `StreamsGroupDescribeRequest`."""
