# SPDX-License-Identifier: Apache-2.0
"""A port of the loopback that nobody has. Standard library only."""
import random
import socket

PORTS = range(20_000, 32_000)  # below those that the system gives to whoever connects


def free_port():
    """One that outlives the kills of a server: a start has to find it free again."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError("no port is free")
