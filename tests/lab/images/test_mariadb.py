"""MariaDB of two majors, each a Galera cluster of one node."""

from __future__ import annotations

import pytest

from fleet.testing import Cluster
from tests.lab.images.pods import engine, name_of, start

pytestmark = pytest.mark.real_nodes
OLD, NEW = "mariadb:10.11", "mariadb:11.8"
INSTALL = "mariadb-install-db --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal"
SERVER = (
    "mariadbd --datadir=/var/lib/mysql --bind-address=0.0.0.0 --init-file=/etc/fleet/init.sql --binlog-format=ROW"
    " --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so"
    " --wsrep-cluster-name=test --wsrep-cluster-address=gcomm:// --wsrep-node-address=$ADDRESS"
)
ACCOUNT = (
    "CREATE USER tester@'%' IDENTIFIED BY 'of-the-test';\nGRANT ALL ON *.* TO tester@'%';\nCREATE DATABASE shop;\n"
)
QUESTION = """
CREATE TABLE apples (n INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO apples VALUES (1), (2), (3);
SELECT CONCAT('sum=', SUM(n)) FROM apples;
SELECT CONCAT('version=', VERSION());
SHOW STATUS WHERE variable_name IN ('wsrep_ready', 'wsrep_provider_name', 'wsrep_cluster_size', 'wsrep_cluster_status');
"""


def test_each_major_answers_sql_as_a_galera_cluster_of_one(real_cluster: Cluster) -> None:
    real_cluster.images(OLD, NEW)
    for image in (OLD, NEW):
        script = f"{INSTALL} && exec {SERVER}"
        files = {"/etc/fleet": {"init.sql": ACCOUNT}}
        real_cluster.apply(*engine(image, port=3306, command=["sh", "-c", script], configuration=files))
    addresses = start(real_cluster, OLD, NEW)

    for image, address in addresses.items():
        client = ["mariadb", f"--host={address}", "--user=tester", "--password=of-the-test", "--batch", "shop"]
        said = real_cluster.execute(name_of(image), *client, "--skip-column-names", "--execute", QUESTION)
        lines = dict.fromkeys(said.splitlines())
        assert "sum=6" in lines
        assert any(line.startswith(f"version={image.partition(':')[2]}.") for line in lines), said
        assert {"wsrep_ready\tON", "wsrep_cluster_status\tPrimary", "wsrep_cluster_size\t1"} <= lines.keys(), said
        assert "wsrep_provider_name\tGalera" in lines
        # What one node gives to another when that joins.
        for program in ("mariabackup", "wsrep_sst_mariabackup", "wsrep_sst_rsync"):
            assert real_cluster.execute(name_of(image), "which", program).strip()
