import fleet
from fleet import TLS, Adopt, Options, Resources
from fleet.apps import Etcd
from fleet.apps.etcd import EtcdConfig


@fleet.stack(clusters=["eu-1"])
def legacy(cluster: fleet.Cluster) -> None:
    # kept as found: resources: memory has no limit
    # kept as found: container store: readinessProbe
    Etcd(
        "raft-store",
        version="3.4.23",
        storage="256Mi",
        resources=Resources(cpu="200m", memory="64Mi"),
        config=EtcdConfig(compaction="2h"),
        tls=TLS(enabled=False),
        image="localhost/fleet-lab/etcd:3.4",
        opts=Options(
            adopt=Adopt(
                identity="cdf818194e3a8c32",
                service="consensus-api",
                port=4379,
                take_from=["kubectl-client-side-apply"],
            ),
        ),
    )
    # kept as found: resources: memory has no limit
    # kept as found: compaction: none by itself
    # kept as found: container member: readinessProbe, securityContext
    # kept as found: container announcer
    # kept as found: init container prepare
    # kept as found: CronJob saves, which speaks to it
    Etcd(
        "etcd",
        version="3.4.23",
        storage="256Mi",
        resources=Resources(cpu="200m", memory="64Mi"),
        tls=TLS(enabled=False),
        image="localhost/fleet-lab/etcd:3.4",
        opts=Options(adopt=Adopt(identity="cdf818194e3a8c32", take_from=["kubectl-client-side-apply"])),
    )
    # kept as found: resources: memory has no limit
    # kept as found: compaction: by revision, 1000 of them
    # kept as found: container etcd: livenessProbe, readinessProbe
    # kept as found: environment: ConfigMap prod-etcd-start
    Etcd(
        "prod-etcd",
        version="3.4.23",
        storage="256Mi",
        resources=Resources(cpu="200m", memory="64Mi"),
        config=EtcdConfig(quota="100000000"),
        tls=TLS(enabled=False),
        image="localhost/fleet-lab/etcd:3.4",
        opts=Options(adopt=Adopt(identity="cdf818194e3a8c32", take_from=["helm"])),
    )
