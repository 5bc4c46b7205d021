"""An S3 server on loopback, with credentials where retentiond looks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from moto.server import ThreadedMotoServer

SECRET = "not-to-be-seen-anywhere"


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """Yields the bucket's URL. Meanwhile its credentials are in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        httpx.put(f"{url}/{bucket}", timeout=60).raise_for_status()  # makes the bucket
        yield f"s3a://{bucket}"
    server.stop()
