"""`helm test`: asks /readyz, and prints what it says. Whether the certificate is trusted is no
question here, and a daemon that wants a login (401) lives."""

import ssl
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

unverified = ssl.create_default_context()
unverified.check_hostname = False
unverified.verify_mode = ssl.CERT_NONE
try:
    with urlopen(sys.argv[1], timeout=10, context=unverified) as answer:
        status, text = answer.status, answer.read().decode()
except HTTPError as error:
    status, text = error.code, error.read().decode()
print(status, text)
sys.exit(status not in (200, 401))
