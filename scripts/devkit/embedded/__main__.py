"""``python -m devkit.embedded``: a Kafka until Ctrl-C or SIGTERM."""

import argparse
import signal
import sys
from contextlib import suppress

from devkit.embedded import EmbeddedKafka, EmbeddedKafkaError, default_version


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m devkit.embedded", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, help="brokers (default: %(default)s)")
    parser.add_argument("--version", default=default_version(), help="default: %(default)s")
    options = parser.parse_args()
    # SIGINT too: a shell without job control has it ignored in what it starts in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        try:
            with EmbeddedKafka(options.nodes, options.version) as kafka:
                print(kafka.bootstrap_servers, flush=True)
                signal.pause()
        except EmbeddedKafkaError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
