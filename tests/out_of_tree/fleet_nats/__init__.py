"""NATS for fleet."""

from fleet_nats.spec import Nats
from fleet_nats.type import TYPE

__all__ = ["TYPE", "Nats"]
