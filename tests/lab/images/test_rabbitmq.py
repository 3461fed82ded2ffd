"""RabbitMQ of two majors: a queue over AMQP, and the management API."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.lab.images.amqp import Connection
from tests.lab.images.http import ask
from tests.lab.images.pods import engine, start

pytestmark = pytest.mark.real_nodes
IMAGES = ("rabbitmq:3.10", "rabbitmq:4.0")
FILES = {
    "rabbitmq.conf": "loopback_users = none\nlog.console.level = warning\n",
    "enabled_plugins": "[rabbitmq_management].\n",
}


def test_each_keeps_a_message_that_amqp_brings_and_fetches(real_cluster: Cluster) -> None:
    real_cluster.images(*IMAGES)
    for image in IMAGES:
        environment = {"RABBITMQ_NODENAME": "rabbit@localhost"}
        files = {"/etc/rabbitmq": FILES}
        real_cluster.apply(*engine(image, port=15672, environment=environment, configuration=files))
    addresses = start(real_cluster, *IMAGES)

    for image, address in addresses.items():
        with Connection(address) as connection:
            assert b"RabbitMQ" in connection.properties
            connection.declare("apples")
            connection.publish("apples", b"red")
        with Connection(address) as connection:
            assert connection.get("apples") == b"red"
        overview = ask(f"http://{address}:15672/api/overview", user="guest:guest")
        assert overview["rabbitmq_version"].startswith(image.partition(":")[2] + ".")
