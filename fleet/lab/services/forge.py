"""The forge: Gitea, with its data in SQLite and its repositories below the lab's directory."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab.cluster.controlplane import LOW_MEMORY, Program
from fleet.lab.files import write_file
from fleet.lab.programs import packages
from fleet.lab.programs.build import GITEA, MODULES, build_module
from fleet.lab.services.service import ServiceKind, ServiceRecord, is_answering

TITLE = f"Gitea {GITEA}"
HEALTH = "/api/healthz"
PORT = 3000
ADMINISTRATOR = "lab"


def build() -> Path:
    """Build the forge, and return the directory of its programs."""
    packages.require_programs({"git": "git"}, "a forge")
    return build_module(MODULES["gitea"])


def credentials() -> tuple[str, str]:
    return ADMINISTRATOR, secrets.token_hex(12)


def program(record: ServiceRecord, programs: Path) -> Program:
    """Write the forge's certificate and settings, and return the program to start."""
    record.certify()
    write_file(_settings_file(record), _format_settings(settings(record, programs)), 0o600)
    command: list[str | Path] = [programs / "gitea", "web", "--config", _settings_file(record)]
    return Program(record.role, command, record.log, f"{record.url}{HEALTH}", (record.address, record.port), LOW_MEMORY)


def _settings_file(record: ServiceRecord) -> Path:
    return record.directory / "app.ini"


def _derive_secret(record: ServiceRecord, purpose: str) -> str:
    """Return a secret under which the forge stores data: the same at every start, and nothing more to keep."""
    return hashlib.sha256(f"{purpose} {record.secret}".encode()).hexdigest()


def settings(record: ServiceRecord, programs: Path) -> dict[str, dict[str, object]]:
    """Return the forge's settings by section. What a lab does not need is off; nothing is asked of the Internet."""
    data = record.directory
    certificate, key = record.authority.pair(record.name)
    off: dict[str, object] = {"ENABLED": False}
    return {
        "": {"APP_NAME": "fleet lab", "RUN_MODE": "prod", "WORK_PATH": data, "I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": True},
        "server": {
            "PROTOCOL": record.scheme,
            "CERT_FILE": certificate,
            "KEY_FILE": key,
            "HTTP_ADDR": record.address,
            "HTTP_PORT": record.port,
            "ROOT_URL": f"{record.url}/",
            "DOMAIN": record.address,
            "STATIC_ROOT_PATH": programs,
            "APP_DATA_PATH": data / "data",
            "DISABLE_SSH": True,
            "OFFLINE_MODE": True,
            "GRACEFUL_HAMMER_TIME": "5s",
        },
        "database": {
            "DB_TYPE": "sqlite3",
            "PATH": data / "gitea.db",
            "SQLITE_JOURNAL_MODE": "WAL",
            "SQLITE_TIMEOUT": 20000,
        },
        "repository": {"ROOT": data / "repositories", "DEFAULT_BRANCH": "main", "ENABLE_PUSH_CREATE_USER": True},
        "security": {
            "INSTALL_LOCK": True,
            "PASSWORD_HASH_ALGO": "pbkdf2_v1",  # quick: every request with a password computes it
            "PASSWORD_COMPLEXITY": "off",
            "SECRET_KEY": _derive_secret(record, "stored"),
            "INTERNAL_TOKEN": _derive_secret(record, "internal"),
        },
        "service": {"DISABLE_REGISTRATION": True, "DEFAULT_KEEP_EMAIL_PRIVATE": True},
        # Receivers are on this machine or in pods, and nowhere else.
        "webhook": {"ALLOWED_HOST_LIST": "loopback,private", "DELIVER_TIMEOUT": 10},
        "migrations": {"ALLOW_LOCALNETWORKS": True},
        "i18n": {"LANGS": "en-US", "NAMES": "English"},
        "indexer": {"ISSUE_INDEXER_TYPE": "db"},
        "session": {"PROVIDER": "memory"},
        "log": {"MODE": "console", "LEVEL": "Warn", "ROOT_PATH": data / "data"},
        "oauth2": off,
        "actions": off,
        "packages": off,
        "cron.update_checker": off,
        "picture": {"DISABLE_GRAVATAR": True},
        "api": {"MAX_RESPONSE_ITEMS": 1000},
    }


def _format_settings(sections: dict[str, dict[str, object]]) -> str:
    lines: list[str] = []
    for name, values in sections.items():
        lines += [f"[{name}]"] if name else []
        lines += [
            f"{key} = {str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()
        ]
    return "\n".join([*lines, ""])


def complete(record: ServiceRecord, programs: Path) -> None:
    """Make the administrator, if the forge does not have it yet."""
    if is_answering(f"{record.url}/api/v1/user", record.user, record.secret, trust=record.trust):
        return
    command: list[str | Path] = [programs / "gitea", "--config", _settings_file(record), "admin", "user", "create"]
    command += ["--username", record.user, "--password", record.secret, "--email", "lab@example.com"]
    command += ["--admin", "--must-change-password=false"]
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = subprocess.run(command, check=False, capture_output=True, text=True, env=variables, cwd="/", timeout=60)
    if process.returncode:
        output = (process.stderr.strip() or process.stdout.strip())[-600:]
        raise ResourceError(f"the forge's administrator could not be made: {output}")


def environment(record: ServiceRecord) -> dict[str, str]:
    """Return the environment for clients of the forge, its administrator's secret included."""
    login = f"{record.scheme}://{record.user}:{record.secret}@{record.address}:{record.port}"
    return {
        "FORGE_URL": record.url,
        "FORGE_USER": record.user,
        "FORGE_PASSWORD": record.secret,
        "FORGE_LOGIN_URL": login,  # for git and curl
        "FORGE_CA": str(record.authority.certificate_file),  # for pods
        "SSL_CERT_FILE": str(record.bundle),  # for fleet, and all that uses OpenSSL
        "GIT_SSL_CAINFO": str(record.bundle),
        "CURL_CA_BUNDLE": str(record.bundle),
    }


FORGE = ServiceKind("forge", TITLE, PORT, HEALTH, build, credentials, program, complete, "https", environment)
