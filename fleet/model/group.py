"""The API group of our custom resources. Alone in its module, for those who need to know it and no model."""

from __future__ import annotations

GROUP = "fleet.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
