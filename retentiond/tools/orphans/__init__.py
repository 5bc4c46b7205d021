"""``retentiond orphans`` (KIP-370): folders on this host's disks that no broker assigns here.

In come log directories and what every live broker says of their topics; out go orphans. An orphan
is removed if all conditions hold three times.
"""
