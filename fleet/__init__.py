"""Stateful apps as typed Python objects in git, applied and kept healthy in every cluster."""

from fleet.version import __version__

__all__ = ["__version__"]
