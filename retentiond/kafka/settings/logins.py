"""Logins by SASL: the properties that each mechanism takes, and what is missing or too much.

With OAUTHBEARER and AWS_MSK_IAM retentiond comes by a token itself and hands it to both clients: to
Kafka the two are one mechanism.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping

from retentiond.errors import ConfigError
from retentiond.kafka.remedies import SettingNames

TOKEN_MECHANISM = "OAUTHBEARER"

AWS_MECHANISM = "AWS_MSK_IAM"

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

SASL_MECHANISMS = (*PASSWORD_MECHANISMS, TOKEN_MECHANISM, AWS_MECHANISM)

KERBEROS = "GSSAPI"

NO_KERBEROS = (
    "retentiond can't log in by Kerberos (GSSAPI): confluent-kafka's wheels bring a librdkafka "
    "without it, and a build with libsasl2 is not supported, nor kafka-python's with gssapi; give "
    "retentiond's user a login by SCRAM, OAUTHBEARER or a certificate: a listener takes several "
    "mechanisms, and a broker several listeners"
)

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
"""``http://`` and ``https://``: asked with the client's credentials; ``file://``: holds the token,
and somebody else renews it there."""

CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"

SCOPE, AUDIENCE = "sasl.oauthbearer.scope", "sasl.oauthbearer.audience"

URL_ENCODE = "sasl.oauthbearer.header.urlencode"
"""Whether id and secret are form-encoded, as RFC 6749 has it. A few endpoints take them as they
are."""

ENDPOINT_CA = "https.ca.location"

EXTENSIONS = "sasl.oauthbearer.extensions"

ENDPOINT_PROPERTIES = (CLIENT_ID, CLIENT_SECRET, SCOPE, AUDIENCE, URL_ENCODE, ENDPOINT_CA)

OAUTH_PROPERTIES = (TOKEN_URL, *ENDPOINT_PROPERTIES, EXTENSIONS)

REGION, PROFILE, ROLE = "aws.region", "aws.profile", "aws.role.arn"

AWS_PROPERTIES = (REGION, PROFILE, ROLE)

TOKEN_PROPERTIES = (*OAUTH_PROPERTIES, *AWS_PROPERTIES)

FILE_SCHEME = "file://"

SASL_EXTENSION = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t\r\n]+)")
"""RFC 7628's key and value."""

AWS_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")

HOST_OF_MSK = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com")


def refuse_contradictions(properties: Mapping[str, str]) -> None:
    """Refuses a ``kafka:`` section that contradicts itself. Raises `ConfigError` naming a
    property."""
    if "sasl.mechanism" in properties and "sasl.mechanisms" in properties:
        raise _refusal("sasl.mechanism", "set either this or kafka.sasl.mechanisms")
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = mechanism_of(properties)
    if protocol.startswith("SASL_") and mechanism is None:
        raise _refusal("sasl.mechanism", f"{protocol} needs it")
    if mechanism is not None and not protocol.startswith("SASL_"):
        raise _refusal("security.protocol", "sasl.mechanism needs SASL_PLAINTEXT or SASL_SSL here")
    for names, their in ((OAUTH_PROPERTIES, TOKEN_MECHANISM), (AWS_PROPERTIES, AWS_MECHANISM)):
        for name in names:
            if name in properties and mechanism != their:
                raise _refusal(name, f"it goes with sasl.mechanism: {their}")
    if mechanism == TOKEN_MECHANISM:
        _refuse_tokens(properties)
    elif mechanism == AWS_MECHANISM:
        _refuse_aws(properties, protocol)
    elif mechanism is not None:
        for name in ("sasl.username", "sasl.password"):
            if name not in properties:
                raise _refusal(name, f"{mechanism} needs it")


def mechanism_of(properties: Mapping[str, str]) -> str | None:
    named = properties.get("sasl.mechanism", properties.get("sasl.mechanisms"))
    return None if named is None else named.upper()


def _refuse_tokens(properties: Mapping[str, str]) -> None:
    url = properties.get(TOKEN_URL)
    if url is not None and url.startswith(FILE_SCHEME):
        for name in ENDPOINT_PROPERTIES:
            if name in properties:
                raise _refusal(name, "it is for a token endpoint, and the token comes from a file")
        if not url.startswith(f"{FILE_SCHEME}/"):
            raise _refusal(
                TOKEN_URL, "expected the whole path of the file, as in file:///run/token"
            )
    else:
        for name in (TOKEN_URL, CLIENT_ID, CLIENT_SECRET):
            if name not in properties:
                raise _refusal(name, f"{TOKEN_MECHANISM} needs it")
        if not properties[TOKEN_URL].startswith(("http://", "https://")):
            raise _refusal(TOKEN_URL, "expected an http or https URL, or file:// and a path")
    if properties.get(URL_ENCODE, "true") not in ("true", "false"):
        raise _refusal(URL_ENCODE, "expected true or false")
    extensions_of(properties)


def _refuse_aws(properties: Mapping[str, str], protocol: str) -> None:
    if protocol != "SASL_SSL":
        raise _refusal("security.protocol", f"{AWS_MECHANISM} needs SASL_SSL")
    if PROFILE in properties and ROLE in properties:
        raise _refusal(ROLE, f"set either this or {PROFILE}; a profile may name a role")
    if region_of(properties) is None:
        raise _refusal(REGION, "it can't be told from bootstrap.servers here; set it")


def require_signer() -> None:
    """Raises `ConfigError` where the extra ``aws`` is not installed, which signs the tokens."""
    if importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:
        raise _refusal(
            "sasl.mechanism", f"{AWS_MECHANISM} is not installed; install retentiond[aws]"
        )


def region_of(properties: Mapping[str, str]) -> str | None:
    """The cluster's, by its own setting, the names of Amazon's brokers, or AWS's variables."""
    match = HOST_OF_MSK.search(properties.get("bootstrap.servers", ""))
    named = [properties.get(REGION), match and match[1], *map(os.environ.get, AWS_VARIABLES)]
    return next(filter(None, named), None)


def extensions_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The extensions of ``key=value,key=value``, librdkafka's form. Raises `ConfigError`."""
    text = properties.get(EXTENSIONS, "")
    extensions = {}
    for pair in filter(None, text.split(",")):
        match = SASL_EXTENSION.fullmatch(pair.strip())
        if match is None or match[1] == "auth":  # which is the token's own
            raise _refusal(EXTENSIONS, "expected letters, = and a value, separated by commas")
        extensions[match[1]] = match[2]
    return extensions


def token_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties by which a token is obtained; empty if the login does not use one."""
    mechanism = mechanism_of(properties)
    if mechanism == TOKEN_MECHANISM:
        return {name: properties[name] for name in OAUTH_PROPERTIES if name in properties}
    if mechanism == AWS_MECHANISM:
        own = {name: properties[name] for name in AWS_PROPERTIES if name in properties}
        return {**own, REGION: region_of(properties) or ""}
    return {}


def words_for(tokens: Mapping[str, str]) -> SettingNames:
    """How the settings are called that an operator would look at. ``tokens``: `token_settings`."""
    if REGION in tokens:
        return SettingNames(
            login="the AWS credentials of this host",
            token_from="AWS",
            token_place="kafka.aws.region",
        )
    if tokens.get(TOKEN_URL, "").startswith(FILE_SCHEME):
        return SettingNames(login="what writes the token file", token_from="the token file")
    if tokens:
        return SettingNames(login=f"kafka.{CLIENT_ID} and kafka.{CLIENT_SECRET}")
    return SettingNames()


def _refusal(name: str, why: str) -> ConfigError:
    return ConfigError(why, path=f"kafka.{name}")
