"""Tokens for Amazon MSK: an address, signed with the credentials that AWS's own clients find.

The signer is the extra ``aws``, which few need: it is imported when the first token is.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping

from retentiond.errors import ConfigError
from retentiond.kafka.settings.logins import PROFILE, REGION, ROLE

SESSION = "retentiond"
"""What the role's session is called in AWS's own logs."""


def require_signer() -> None:
    """Raises `ConfigError`."""
    if importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:
        raise ConfigError(
            "AWS_MSK_IAM is not installed; install retentiond[aws]", path="kafka.sasl.mechanism"
        )


def sign(settings: Mapping[str, str]) -> tuple[str, float]:
    """A token, and for how many seconds it is taken. Raises OSError saying why there is none."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer  # noqa: N813, PLC0415

    region = settings[REGION]
    try:
        if ROLE in settings:
            signed = signer.generate_auth_token_from_role_arn(region, settings[ROLE], SESSION)
        elif PROFILE in settings:
            signed = signer.generate_auth_token_from_profile(region, settings[PROFILE])
        else:
            signed = signer.generate_auth_token(region)
    except AttributeError:  # it looks into credentials that it has not found
        raise OSError("no AWS credentials are found") from None
    except Exception as error:
        raise OSError(str(error) or type(error).__name__) from error
    token, expires_at_ms = signed
    return token, expires_at_ms / 1000 - time.time()
