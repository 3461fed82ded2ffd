"""Repositories on a host that takes connections and never answers: they hold up nobody else, and not the end."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.serve.process import Process
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map

MORE_THAN_A_POOL = min(32, (os.cpu_count() or 1) + 4) + 1  # that asyncio would have


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as server:
        yield server


class Many(Process):
    silent: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return ["serve", *self.silent, self.url]


def test_one_repository_is_served_and_the_service_ends_while_others_wait_for_a_host_that_is_silent(
    served: Served, silent: socket.socket
) -> None:
    repository = served.repository
    eu, us = repository.clusters
    host = f"http://127.0.0.1:{silent.getsockname()[1]}"
    many = Many(served.directory, served.url)
    many.silent = tuple(f"{host}/{number}.git" for number in range(MORE_THAN_A_POOL))
    repository.wants(config_map("settings", {"a": "1"}))
    first = served.push()
    try:
        many.start()
        callers = [silent.accept()[0] for _ in many.silent]
        many.until("one is served", lambda: all(served.record(one.name).get("revision") == first for one in (eu, us)))
        eu.kubectl("-n", repository.namespace, "delete", "configmap", "settings")
        many.until("drift is put back", lambda: served.data(eu, "settings") == {"a": "1"})
        began = time.monotonic()
        assert many.stop() == 0
        assert time.monotonic() - began < 30.0
        for one in callers:
            one.settimeout(10.0)
            with one:
                while one.recv(4096):
                    pass  # until whoever waited for an answer has ended, too
    finally:
        many.kill()
