"""An own corner of the network for a demo or a test: this machine only, and a domain that nobody uses."""

from __future__ import annotations

import os
import random
import socket

#: Domains whose ports lie below Linux's range for outgoing connections.
_DOMAINS = range(1, 102)
#: DDS discovery listens at this port plus 250 a domain (DDSI-RTPS 2.5, section 9.6.2).
_PORT_BASE, _PORT_GAIN = 7400, 250
#: From there: the port for everybody, which stays closed where discovery is kept on this machine, and each
#: participant's own, ten ports further, two apart.
_OFFSETS = (0, *range(10, 42, 2))


def free_domain(rng: random.Random | None = None) -> int:
    """A random domain on whose discovery ports nobody listens."""
    domains = list(_DOMAINS)
    (rng or random.SystemRandom()).shuffle(domains)
    return next((domain for domain in domains if _is_free(domain)), domains[0])


def isolated_environment() -> dict[str, str]:
    """This process's environment with a free domain and discovery on this machine only."""
    return {**os.environ, "ROS_DOMAIN_ID": str(free_domain()), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


def _is_free(domain: int) -> bool:
    return all(_is_closed(_PORT_BASE + _PORT_GAIN * domain + offset) for offset in _OFFSETS)


def _is_closed(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
