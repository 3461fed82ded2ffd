"""Declared → desired: what a stack declared for a cluster becomes manifests, pure and the same to the byte every time.

Beside it, the definitions of our custom resources, generated from the same models.
"""

from fleet.render.objects import render

__all__ = ["render"]
