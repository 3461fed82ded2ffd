"""Redis of two majors and Valkey: they answer in their protocol and keep what they acknowledged."""

from __future__ import annotations

import socket

import pytest

from fleet.testing import Cluster
from tests.lab.images.pods import engine, name_of, start

pytestmark = pytest.mark.real_nodes
SERVERS = {"redis:7.0": "redis-server", "redis:8.0": "redis-server", "valkey:8.1": "valkey-server"}


def call(address: str, *words: str) -> str:
    """One command in RESP, sent as an array of bulk strings; simple and bulk answers."""
    sent = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection((address, 6379), timeout=5) as connection, connection.makefile("rwb") as stream:
        stream.write(sent.encode())
        stream.flush()
        first = stream.readline().decode().rstrip()
        if first.startswith("$") and first != "$-1":
            return stream.read(int(first[1:])).decode()
        return first


def test_each_answers_in_its_protocol_and_has_its_data_in_its_directory(real_cluster: Cluster) -> None:
    real_cluster.images(*SERVERS)
    for image, program in SERVERS.items():
        directory = f"/var/lib/{image.partition(':')[0]}"
        options = ["--bind", "*", "--protected-mode", "no", "--dir", directory, "--appendonly", "yes"]
        real_cluster.apply(*engine(image, port=6379, command=[program, *options], memory="128Mi"))
    addresses = start(real_cluster, *SERVERS)

    for image, address in addresses.items():
        name, _, version = image.partition(":")
        assert call(address, "PING") == "+PONG"
        assert call(address, "SET", "apple", "red") == "+OK"
        assert call(address, "GET", "apple") == "red"
        assert call(address, "GET", "pear") == "$-1"
        assert f"{name}_version:{version}." in call(address, "INFO", "server")
        assert "red" in real_cluster.execute(
            name_of(image), "sh", "-c", f"cat /var/lib/{name}/appendonlydir/*.incr.aof"
        )
        assert call(address, "NO-SUCH").startswith("-ERR")
