"""Rendering of what a stack declared for a cluster into manifests, pure and the same to the byte every time.

The package also has the definitions of our custom resources, generated from the same models.
"""

from fleet.render.objects import render

__all__ = ["render"]
