"""Remotes that need credentials: a real git server over HTTP, and ssh by the person's own command."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleet.errors import AccessError, FleetError, NotFoundError
from fleet.git.repository import GitRepository
from fleet.git.status import read_status, report
from fleet.git.status_records import StatusReport
from fleet.lab.cluster.certificates import LabAuthority
from tests.git.repositories import bare, clone, git

BACKEND = Path(git(Path.cwd(), "--exec-path")) / "git-http-backend"


@dataclass
class Server:
    root: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """git's own HTTP backend behind a password; with the parameter "https", its certificate is of an authority."""
    if not BACKEND.exists():
        pytest.skip("git has no HTTP backend here")
    made = Server(tmp_path / "served")
    bare(made.root / "fleet.git")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            made.asked.append(self.headers.get("Authorization", ""))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:hunter2").decode():
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environment = {
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(made.root), "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "me",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }  # fmt: skip
            done = subprocess.run([BACKEND], env=environment, input=body, capture_output=True, check=False)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if line]
            status = next((value for name, value in headers if name == "Status"), "200")
            self.send_response(int(status.split()[0]))
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = getattr(request, "param", "http")
    if scheme == "https":
        authority = LabAuthority(tmp_path / "authority")
        authority.make()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*authority.issue("server", "server", addresses=["127.0.0.1"]))
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    made.url = f"{scheme}://127.0.0.1:{listener.server_port}/fleet.git"
    yield made
    listener.shutdown()
    listener.server_close()


def repository_of(tmp_path: Path, url: str, **settings: str) -> GitRepository:
    """Of the remote `url`; `credential_helper="…"` is a setting of the clone's own configuration."""
    path = clone(tmp_path / "clone")
    git(path, "remote", "add", "origin", url)
    for key, value in settings.items():
        git(path, "config", key.replace("_", "."), value)
    return GitRepository.find(path)


def one(repository: GitRepository) -> StatusReport:
    return StatusReport("orders", "eu-1", repository.resolve().id, health="Healthy")


def test_the_persons_credential_helper_gives_access_over_http(tmp_path: Path, server: Server, home: Path) -> None:
    (home / ".gitconfig").write_text(
        '[credential]\n\thelper = "!f() { echo username=me; echo password=hunter2; }; f"\n'
    )
    repository = repository_of(tmp_path, server.url)
    report(repository, [one(repository)])
    assert len(read_status(repository).records) == 1
    assert git(server.root / "fleet.git", "rev-list", "--count", "fleet/status") == "1"


def test_a_header_in_the_clones_own_configuration_gives_access_as_ci_services_do_it(
    tmp_path: Path, server: Server, home: Path
) -> None:
    repository = repository_of(tmp_path, server.url)
    header = "Authorization: Basic " + base64.b64encode(b"me:hunter2").decode()
    git(repository.root, "config", f"http.{server.url}.extraHeader", header)
    report(repository, [one(repository)])
    assert not (home / ".gitconfig").exists()


def test_without_credentials_it_fails_at_once_asks_nobody_and_says_what_to_do(
    tmp_path: Path, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = home / "asked"
    (home / "ask").write_text(f"#!/bin/sh\ntouch {asked}\necho x\n")
    (home / "ask").chmod(0o755)
    for variable in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(variable, str(home / "ask"))
    repository = repository_of(tmp_path, server.url)
    with pytest.raises(AccessError) as refused:
        report(repository, [one(repository)])
    assert "credentials" in str(refused.value.hint)
    assert not asked.exists()


def test_a_wrong_password_is_refused_and_never_shown(tmp_path: Path, server: Server, home: Path) -> None:
    repository = repository_of(tmp_path, server.url.replace("://", "://me:wrong-secret@"))
    with pytest.raises(AccessError) as refused:
        report(repository, [one(repository)])
    assert "wrong-secret" not in str(refused.value)
    assert home.exists()


def test_a_repository_that_is_not_there_is_told_apart(tmp_path: Path, server: Server, home: Path) -> None:
    (home / ".gitconfig").write_text(
        '[credential]\n\thelper = "!f() { echo username=me; echo password=hunter2; }; f"\n'
    )
    repository = repository_of(tmp_path, server.url.replace("fleet.git", "other.git"))
    with pytest.raises(NotFoundError):
        read_status(repository)


def test_ssh_runs_the_persons_own_command(tmp_path: Path, home: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    ssh = home / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{home}/log\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n\tsshCommand = {ssh}\n[ssh]\n\tvariant = ssh\n")
    repository = repository_of(tmp_path, f"ssh://git@localhost{remote}")
    report(repository, [one(repository)])
    assert git(remote, "rev-list", "--count", "fleet/status") == "1"
    assert "git@localhost" in (home / "log").read_text()


def test_the_persons_helpers_are_asked_where_a_clone_names_others(tmp_path: Path, server: Server, home: Path) -> None:
    (home / ".gitconfig").write_text(
        '[credential]\n\thelper = "!true"\n'
        f'[credential "{server.url}"]\n\thelper = "!f() {{ echo username=me; echo password=hunter2; }}; f"\n'
    )
    trace = home / "asked"
    evil = f"!touch {trace}; echo quit=1; true"
    repository = repository_of(
        tmp_path, server.url, **{"credential.helper": evil, f"credential.{server.url}.helper": evil}
    )
    report(repository, [one(repository)])
    assert not trace.exists()


def test_a_helper_of_the_clone_is_not_asked_and_the_error_says_so(tmp_path: Path, server: Server, home: Path) -> None:
    helper = "!f() { echo username=me; echo password=hunter2; }; f"
    repository = repository_of(tmp_path, server.url, credential_helper=helper)
    with pytest.raises(AccessError) as refused:
        report(repository, [one(repository)])
    assert "this clone's own credential.helper is not used" in str(refused.value.hint)
    assert "git config --global" in str(refused.value.hint)
    assert home.exists()


def test_ssh_runs_the_persons_own_command_where_the_clone_names_another(tmp_path: Path, home: Path) -> None:
    remote = bare(tmp_path / "bare.git")
    ssh = home / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    (home / ".gitconfig").write_text(f"[core]\n\tsshCommand = {ssh}\n[ssh]\n\tvariant = ssh\n")
    url = f"ssh://git@localhost{remote}"
    repository = repository_of(tmp_path, url, core_sshCommand="false", ssh_variant="tortoiseplink")
    report(repository, [one(repository)])
    assert git(remote, "rev-list", "--count", "fleet/status") == "1"


@pytest.mark.parametrize("server", ["https"], indirect=True)
@pytest.mark.parametrize(
    ("variables", "trusted"),
    [
        ({}, False),
        ({"SSL_CERT_FILE": "ours"}, True),
        ({"GIT_SSL_CAINFO": "ours"}, True),
        ({"GIT_SSL_CAINFO": "ours", "SSL_CERT_FILE": "another"}, True),
        ({"SSL_CERT_FILE": "another"}, False),
        ({"GIT_SSL_NO_VERIFY": "1"}, False),
    ],
    ids=str,
)
def test_the_authorities_that_the_environment_names_are_trusted_and_no_others(
    tmp_path: Path,
    server: Server,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    trusted: bool,
) -> None:
    another = LabAuthority(tmp_path / "another")
    another.make()
    files = {"ours": tmp_path / "authority/ca.crt", "another": another.certificate_file}
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(files.get(value, value)))
    repository = repository_of(tmp_path, server.url.replace("://", "://me:hunter2@"))
    if trusted:
        report(repository, [one(repository)])
        return
    with pytest.raises(FleetError) as refused:
        report(repository, [one(repository)])
    assert "certificate" in refused.value.message
    assert server.asked == [], "nothing is told to a server that is not trusted"
