"""The images of the operator and of `fleet serve`, for whoever has no source tree: this release, as pip installs it.

operator/deploy/Dockerfile makes the same images from a clone. In both, dependencies are the files whose hashes are
locked: the release has the lock in it.
"""

from __future__ import annotations

from fleet.version import __version__

LOCK = "fleet/requirements.lock"  # in the package
_BUILD = """\
# The images of fleet {version}, from the released package:
#   fleet operator dockerfile | docker build -t REGISTRY/fleet-operator:{version} -
#   fleet operator dockerfile | docker build --target serve -t REGISTRY/fleet-serve:{version} -
FROM python:3.13-slim AS build
RUN pip download --no-cache-dir --no-deps --only-binary :all: --dest /tmp/fleet fleet-gitops=={version}
RUN python -m zipfile -e /tmp/fleet/*.whl /tmp/wheel
RUN pip download --no-cache-dir --require-hashes --only-binary :all: --dest /tmp/locked --requirement /tmp/wheel/{lock}
RUN pip install --no-cache-dir --no-index --find-links /tmp/locked --target /opt/fleet /tmp/fleet/*.whl
"""
STAGES = """\

FROM python:3.13-slim AS base
COPY --from=build /opt/fleet /opt/fleet
ENV PYTHONPATH=/opt/fleet PYTHONDONTWRITEBYTECODE=1

FROM base AS serve
RUN apt-get update && apt-get install --no-install-recommends --yes git openssh-client && rm -rf /var/lib/apt/lists/*
USER 65532:65532
ENTRYPOINT ["python3", "-P", "-m", "fleet", "serve"]

FROM base
USER 65532:65532
ENTRYPOINT ["python3", "-P", "-m", "fleet_operator"]
CMD ["run"]
"""


def dockerfile() -> str:
    return _BUILD.format(version=__version__, lock=LOCK) + STAGES
