"""The fixtures `forge` and `s3`: one of each for the whole run, and for every test users and buckets of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fleet.lab.services import ServiceRecord
    from fleet.testing.forge import Forge
    from fleet.testing.s3 import S3


class Services:
    """The services of one test run, started when first asked for; a lab of their own, which ends with the run.

    With `--fleet-lab` they are those of that lab, and stay.
    """

    def __init__(self, existing: str | None) -> None:
        self._existing = existing
        self._records: dict[str, ServiceRecord] = {}

    @property
    def lab(self) -> str:
        return self._existing or f"t{os.getpid()}-services"

    def give(self, name: str) -> ServiceRecord:
        """Return the record of a running service; start it if it does not answer."""
        from fleet.lab.programs.process import identify
        from fleet.lab.services import find_service, start_services
        from fleet.lab.services.service import is_answering

        record = self._records.get(name)
        if record is None or not is_answering(
            f"{record.url}{find_service(name).health}", trust=record.trust
        ):  # a test may have ended it
            owner = None if self._existing else identify(os.getpid())
            self._records[name] = start_services(self.lab, [name], owner=owner)[0]
        return self._records[name]

    def close(self) -> None:
        """Remove the lab of the services that were started here."""
        from fleet.lab.lab import take_down

        if self._records and not self._existing:
            take_down(self.lab)


@pytest.fixture(scope="session")
def fleet_services(request: pytest.FixtureRequest) -> Iterator[Services]:
    """The services of this run."""
    services = Services(request.config.getoption("--fleet-lab"))
    yield services
    services.close()


@pytest.fixture
def forge(fleet_services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """A real forge (Gitea), shared by the run; a fresh user for this test.

    The test's environment says whom to trust: fleet, git, curl and Python take the forge's certificate.
    """
    from fleet.errors import ResourceError
    from fleet.testing.forge import Forge

    record = fleet_services.give("forge")
    for name in ("SSL_CERT_FILE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(record.bundle))
    server = Forge.of(record.url, record.user, record.secret, record.authority.certificate_file)
    yield server
    with suppress(ResourceError):  # a test that broke the forge has failed already
        server.administrator.api("DELETE", f"/admin/users/{server.user.name}?purge=true")


@pytest.fixture
def s3(fleet_services: Services) -> Iterator[S3]:
    """A real S3 server, shared by the run; a fresh account with a bucket for this test."""
    from fleet.errors import ResourceError
    from fleet.lab.services.s3 import REGION
    from fleet.testing.s3 import S3, Key

    record = fleet_services.give("s3")
    server = S3.of(record.url, REGION, Key(record.user, record.secret))
    yield server
    with suppress(ResourceError):
        server.remove(server.account)
