"""A place at the API server's own port, for a while.

The lab's API servers let others bind their port too (`--permit-port-sharing`), and the kernel asks a small program
which of the listeners gets a connection: the proxy, but the API server if it is the proxy that connects. So every
client is reached without a rule in any packet filter, without a right to make one, and without a moment in which
nobody listens. When the proxy's socket is gone, for whatever reason, there is one listener left: the API server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from ipaddress import IPv4Address
from pathlib import Path

OWN = "127.93.0.1"  # where the proxy connects from; all of 127.0.0.0/8 is this machine
_ATTACH_REUSEPORT_CBPF = 51
_NETWORK_HEADER = -0x100000 & 0xFFFFFFFF  # from there, as an offset of the program
_SOURCE = 12  # of an IPv4 header
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_FIRST, _SECOND = 0, 1  # listeners in the order in which they came: the API server, the proxy
_LISTEN = "0A"


def listen(address: str, port: int) -> socket.socket:
    """Take the connections of all but the proxy itself. The API server has to listen already, and first."""
    joined = socket.socket()
    try:
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        joined.bind((address, port))
        joined.listen(1024)
        joined.setblocking(False)
        code = [
            (_LOAD_WORD, 0, 0, (_NETWORK_HEADER + _SOURCE) & 0xFFFFFFFF),
            (_JUMP_IF_EQUAL, 0, 1, int(IPv4Address(OWN))),
            (_RETURN, 0, 0, _FIRST),
            (_RETURN, 0, 0, _SECOND),
        ]
        instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
        program = struct.pack("HP", len(code), ctypes.addressof(instructions))
        joined.setsockopt(socket.SOL_SOCKET, _ATTACH_REUSEPORT_CBPF, program)
    except BaseException:
        joined.close()
        raise
    return joined


def others(address: str, port: int, own: socket.socket | None) -> int:
    """How many other sockets listen there: none while the API server is down."""
    inode = str(os.fstat(own.fileno()).st_ino) if own else ""
    wanted = f"{struct.unpack('<I', IPv4Address(address).packed)[0]:08X}:{port:04X}"
    found = 0
    with contextlib.suppress(FileNotFoundError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            cells = line.split()
            found += cells[1] == wanted and cells[3] == _LISTEN and cells[9] != inode
    return found
