"""etcd: a small, strictly consistent key-value store."""

from fleet.apps.etcd.config import EtcdConfig
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.spec import Etcd

__all__ = ["DRIVER", "Etcd", "EtcdConfig"]
