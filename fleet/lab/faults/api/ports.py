"""A place at the API server's own port, the end of connections that clients have there, and the name in a TLS hello.

The lab's API servers let other sockets bind their port too (`--permit-port-sharing`), and the kernel asks a small
program which of the listeners gets a connection: the proxy, but the API server if it is the proxy that connects. So
every client is reached without a rule in any packet filter, without a right to make one, and without a moment in which
no socket listens. When the proxy's socket is gone, for whatever reason, there is one listener left: the API server.

Connections that clients have already are ended, so that they come again and meet the proxy. The name that a TLS client
asks for is read from its first message, without taking part in the handshake.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from ipaddress import IPv4Address
from pathlib import Path

import psutil

PROXY_ADDRESS = "127.93.0.1"  # where the proxy connects from; all of 127.0.0.0/8 is this machine
_ATTACH_REUSEPORT_CBPF = 51
_NETWORK_HEADER = -0x100000 & 0xFFFFFFFF  # from there, as an offset of the program
_SOURCE = 12  # of an IPv4 header
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_FIRST, _SECOND = 0, 1  # listeners in the order in which they came: the API server, the proxy
_LISTEN = "0A"


def listen_beside(address: str, port: int) -> socket.socket:
    """Accept the connections of all clients but the proxy itself. The API server has to listen already."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, port))
        listener.listen(1024)
        listener.setblocking(False)
        code = [
            (_LOAD_WORD, 0, 0, (_NETWORK_HEADER + _SOURCE) & 0xFFFFFFFF),
            (_JUMP_IF_EQUAL, 0, 1, int(IPv4Address(PROXY_ADDRESS))),
            (_RETURN, 0, 0, _FIRST),
            (_RETURN, 0, 0, _SECOND),
        ]
        instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in code))
        program = struct.pack("HP", len(code), ctypes.addressof(instructions))
        listener.setsockopt(socket.SOL_SOCKET, _ATTACH_REUSEPORT_CBPF, program)
    except BaseException:
        listener.close()
        raise
    return listener


def count_listeners(address: str, port: int, own_socket: socket.socket | None) -> int:
    """Return how many other sockets listen there: none while the API server is down."""
    inode = str(os.fstat(own_socket.fileno()).st_ino) if own_socket else ""
    address_text = f"{struct.unpack('<I', IPv4Address(address).packed)[0]:08X}:{port:04X}"
    count = 0
    with contextlib.suppress(FileNotFoundError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            cells = line.split()
            count += cells[1] == address_text and cells[3] == _LISTEN and cells[9] != inode
    return count


_PIDFD_GETFD = 438
_YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def can_end_connections() -> bool:
    """Return whether this user may take hold of another process's connections."""
    return os.geteuid() == 0 or not _YAMA.exists() or _YAMA.read_text().strip() == "0"


def end_connections(server: int, port: int) -> int:
    """End the connections that the process `server` accepted at its port, and return how many there were.

    Connections of the server with itself stay.
    """
    try:
        connections = [entry for entry in psutil.Process(server).net_connections("tcp4") if entry.raddr]
        handle = os.pidfd_open(server)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return 0
    own_addresses = {entry.laddr for entry in connections if entry.raddr.port == port}
    clients = [
        entry
        for entry in connections
        if entry.laddr.port == port and entry.raddr not in own_addresses and entry.raddr.ip != PROXY_ADDRESS
    ]
    clients = [client for client in clients if client.status == psutil.CONN_ESTABLISHED]
    try:
        for client in clients:
            with contextlib.suppress(OSError), _borrow_socket(handle, client.fd) as connection:
                connection.shutdown(socket.SHUT_RDWR)
    finally:
        os.close(handle)
    return len(clients)


def _borrow_socket(handle: int, number: int) -> socket.socket:
    """Return a socket of another process, which keeps it too."""
    libc = ctypes.CDLL(None, use_errno=True)
    copy = libc.syscall(_PIDFD_GETFD, handle, number, 0)
    if copy < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.socket(fileno=copy)


_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0


def is_whole_record(data: bytes) -> bool:
    """Return whether the bytes have all of the first TLS record, or are none."""
    return len(data) >= 5 and (data[0] != _HANDSHAKE or len(data) >= 5 + struct.unpack_from("!H", data, 3)[0])


def read_server_name(data: bytes) -> str:
    """Return the name that a TLS client asks for; "" where there is none."""
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
