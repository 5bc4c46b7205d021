"""Which of the requests in a broker's log count as ours."""

import pytest

from devkit.bench.requests import sent_by_us


def logged(client: str, api: str, *, forwarded: bool = False) -> str:
    """As Kafka 4.2 logs it, shortened."""
    return (
        f'[2026-11-22] DEBUG Completed request:{{"isForwarded":{str(forwarded).lower()},'
        f'"requestHeader":{{"requestApiKey":55,"clientId":"{client}",'
        f'"requestApiKeyName":"{api}"}},"request":{{}}}} (kafka.request.logger)\n'
    )


@pytest.mark.parametrize("client", ["retentiond-bench", "retentiond-bench-2"])
def test_what_our_clients_send_counts(client: str) -> None:
    assert list(sent_by_us([logged(client, "METADATA")])) == ["METADATA"]


def test_a_request_that_the_broker_forwards_counts_once() -> None:
    log = [
        logged("retentiond-bench", "DESCRIBE_QUORUM", forwarded=True),
        logged("retentiond-bench", "DESCRIBE_QUORUM"),
    ]
    assert list(sent_by_us(log)) == ["DESCRIBE_QUORUM"]


def test_other_clients_and_other_lines_do_not_count() -> None:
    log = [logged("admin-client", "METADATA"), "[2026-11-22] INFO started\n"]
    assert list(sent_by_us(log)) == []
