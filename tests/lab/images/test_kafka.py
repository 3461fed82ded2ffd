"""Kafka without ZooKeeper, one node: a topic, and records that go in and come out with Kafka's own tools."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.lab.images.pods import engine, name_of, start

pytestmark = pytest.mark.real_nodes
KAFKA = "kafka:4.1"
CONFIGURATION = """
node.id=1
process.roles=broker,controller
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
listeners=BROKER://:9092,CONTROLLER://:9093
advertised.listeners=BROKER://localhost:9092
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
log.dirs=/var/lib/kafka/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
"""
FORMAT = "kafka-storage format --config /etc/kafka/server.properties --cluster-id 5L6g3nShT-eMCtK--X86sw --standalone"
TOOLS = """
set -e
kafka-topics --bootstrap-server localhost:9092 --create --topic apples --partitions 2
printf 'red\\ngreen\\nyellow\\n' | kafka-console-producer --bootstrap-server localhost:9092 --topic apples
kafka-console-consumer --bootstrap-server localhost:9092 --topic apples --from-beginning --max-messages 3 \
    --timeout-ms 30000
"""
SMALL = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # of the heap, and quick to start


def test_records_go_into_a_topic_and_come_out(real_cluster: Cluster) -> None:
    real_cluster.images(KAFKA)
    real_cluster.apply(
        *engine(
            KAFKA,
            port=9092,
            command=["sh", "-c", f"{FORMAT} && exec kafka-server-start /etc/kafka/server.properties"],
            environment={"JDK_JAVA_OPTIONS": SMALL},
            configuration={"/etc/kafka": {"server.properties": CONFIGURATION}},
            memory="1Gi",
        )
    )
    start(real_cluster, KAFKA)
    said = real_cluster.execute(name_of(KAFKA), "sh", "-c", TOOLS, timeout=120)
    assert "Created topic apples" in said
    assert set(said.split()) >= {"red", "green", "yellow"}
