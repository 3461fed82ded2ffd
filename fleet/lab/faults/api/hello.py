"""The name that a TLS client asks for, read from its first message without taking part in the talk."""

from __future__ import annotations

import struct

_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


def is_whole(data: bytes) -> bool:
    """Whether there is all of the first record, or something that is none."""
    return len(data) >= 5 and (data[0] != _HANDSHAKE or len(data) >= 5 + struct.unpack_from("!H", data, 3)[0])


def server_name(data: bytes) -> str:
    """ "" where there is none."""
    try:
        if data[0] != _HANDSHAKE or data[5] != _CLIENT_HELLO:
            return ""
        at = 5 + 4 + 2 + 32  # headers of record and message, version, random
        at += 1 + data[at]  # session
        at += 2 + struct.unpack_from("!H", data, at)[0]  # ciphers
        at += 1 + data[at]  # compression
        end = at + 2 + struct.unpack_from("!H", data, at)[0]
        at += 2
        while at < end:
            kind, length = struct.unpack_from("!HH", data, at)
            if kind == _SERVER_NAME:
                size = struct.unpack_from("!H", data, at + 7)[0]
                return data[at + 9 : at + 9 + size].decode("ascii", "replace")
            at += 4 + length
    except (IndexError, struct.error):
        pass
    return ""
