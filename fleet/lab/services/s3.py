"""The S3 server: versitygw, with buckets as directories below the lab's directory."""

from __future__ import annotations

import secrets
from pathlib import Path

from fleet.lab.cluster.controlplane import LOW_MEMORY, Program
from fleet.lab.programs.build import MODULES, build_module
from fleet.lab.services.service import ServiceKind, ServiceRecord

TITLE = f"versitygw {MODULES['s3'].version}"
HEALTH = "/healthz"
PORT = 9000
REGION = "us-east-1"


def build() -> Path:
    return build_module(MODULES["s3"])


def credentials() -> tuple[str, str]:
    return f"LAB{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30)


def program(record: ServiceRecord, programs: Path) -> Program:
    command: list[str | Path] = [programs / "versitygw", f"-listen={record.address}:{record.port}"]
    command += [f"-data={record.directory / 'data'}", f"-region={REGION}"]
    keys = {"ROOT_ACCESS_KEY": record.user, "ROOT_SECRET_KEY": record.secret}
    return Program(
        record.role, command, record.log, f"{record.url}{HEALTH}", (record.address, record.port), {**LOW_MEMORY, **keys}
    )


def complete(record: ServiceRecord, programs: Path) -> None:
    """Do nothing: the administrator of this service is among its settings."""


def environment(record: ServiceRecord) -> dict[str, str]:
    """Return the environment that every client of S3 reads."""
    return {
        "AWS_ENDPOINT_URL": record.url,
        "AWS_ACCESS_KEY_ID": record.user,
        "AWS_SECRET_ACCESS_KEY": record.secret,
        "AWS_REGION": REGION,
    }


S3 = ServiceKind("s3", TITLE, PORT, HEALTH, build, credentials, program, complete, "http", environment)
