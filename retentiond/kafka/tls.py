"""The TLS settings of the ``kafka:`` section as Python's ``ssl`` takes them."""

from __future__ import annotations

import ssl

from retentiond.kafka.properties import ClientSettings

INLINE_TRUST = "ssl.ca.pem"

INLINE_CERTIFICATE = "ssl.certificate.pem"
"""librdkafka's property for a certificate that is no file. Python reads none but from a file."""


def client_context(settings: ClientSettings) -> ssl.SSLContext:
    """As kafka-python makes its own. Raises ``OSError`` for a file that can't be read."""
    options = settings.kafka_python
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = options.get("ssl_check_hostname", True)
    if INLINE_TRUST in settings.confluent:
        context.load_verify_locations(cadata=settings.confluent[INLINE_TRUST])
    elif "ssl_cafile" in options:
        context.load_verify_locations(options["ssl_cafile"])
    else:
        context.load_default_certs()
    if "ssl_crlfile" in options:
        context.load_verify_locations(options["ssl_crlfile"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if "ssl_certfile" in options:
        context.load_cert_chain(
            options["ssl_certfile"], options.get("ssl_keyfile"), options.get("ssl_password")
        )
    return context
