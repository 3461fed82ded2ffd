"""Strings with a grammar. To a type checker each is a `str`, and so are the values: checked once, plain ever after."""

from fleet.model.types.cron import Cron
from fleet.model.types.duration import Duration
from fleet.model.types.many import Many
from fleet.model.types.name import AppName, ExportName, Name, ObjectName
from fleet.model.types.quantity import Quantity
from fleet.model.types.version import Version

__all__ = ["AppName", "Cron", "Duration", "ExportName", "Many", "Name", "ObjectName", "Quantity", "Version"]
