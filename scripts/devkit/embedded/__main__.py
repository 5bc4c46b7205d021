"""``python -m devkit.embedded``: a Kafka until Ctrl-C or SIGTERM."""

import argparse
import signal
import sys
from contextlib import suppress

from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError, default_version
from devkit.interrupt import raise_on_signals


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devkit.embedded", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, help="brokers (default: %(default)s)")
    parser.add_argument("--version", default=default_version(), help="default: %(default)s")
    options = parser.parse_args()
    raise_on_signals()
    with suppress(KeyboardInterrupt):
        try:
            with EmbeddedKafka(options.nodes, options.version, witnessed=False) as kafka:
                print(kafka.bootstrap_servers, flush=True)
                signal.pause()
        except EmbeddedKafkaError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
