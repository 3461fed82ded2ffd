"""NATS of two series: they acknowledge what JetStream has on disk, and have it again."""

from __future__ import annotations

import asyncio

import pytest

from fleet.testing import Cluster
from fleet.testing.traffic import MemberAddress
from tests.lab.images.http import ask
from tests.lab.images.pods import engine, name_of, start
from tests.operator.nats.traffic import NatsTraffic

pytestmark = pytest.mark.real_nodes
IMAGES = ("nats:2.9", "nats:2.10")
DIRECTORY = "/var/lib/nats"


async def write_and_count(address: str) -> frozenset[int]:
    async with asyncio.timeout(30):
        place = MemberAddress(address, "nats", 4222)
        connection = await NatsTraffic().connect(place, None)
        for number in range(10):
            await connection.write(number)
        connection.close()
        again = await NatsTraffic().connect(place, None)
        try:
            return await again.count()
        finally:
            again.close()


def test_each_acknowledges_messages_and_has_its_data_in_its_directory(real_cluster: Cluster) -> None:
    real_cluster.images(*IMAGES)
    for image in IMAGES:
        command = ["nats-server", "--jetstream", f"--store_dir={DIRECTORY}", "--http_port=8222"]
        real_cluster.apply(*engine(image, port=4222, command=command, memory="128Mi"))
    for image, address in start(real_cluster, *IMAGES).items():
        assert asyncio.run(write_and_count(address)) == frozenset(range(10))
        assert ask(f"http://{address}:8222/varz")["version"].startswith(image.partition(":")[2] + ".")
        kept = real_cluster.execute(name_of(image), "ls", f"{DIRECTORY}/jetstream/$G/streams/written/msgs")
        assert ".blk" in kept
