"""``retentiond orphans`` (KIP-370): folders on this host's disks that no broker assigns here.

In come log directories and what every live broker says of them; out go orphans, and the removal of
those for which all conditions hold three times.
"""
