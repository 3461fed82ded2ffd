"""Kubeconfigs as kubectl reads them: several files, relative paths, tokens in files; and what is loaded for it."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.errors import AccessError, ConfigurationError, FleetError
from fleet.kube.client.credentials import Credentials, Plain
from fleet.testing import Cluster


def write(path: Path, *, server: str = "https://127.0.0.1:1", user: Any = None, context: str = "ctx") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
                "current-context": context,
            }
        )
    )
    return path


def load(path: Path | None = None, context: str | None = None) -> Credentials:
    return asyncio.run(Credentials.from_kubeconfig(path, context))


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer of-a-file"),
        ({"username": "me", "password": "it"}, f"Basic {base64.b64encode(b'me:it').decode()}"),
        ({}, None),
        (None, None),
    ],
)
def test_a_plain_user_becomes_a_header(tmp_path: Path, user: Any, header: str | None) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "token").write_text("of-a-file\n")
    credentials = load(write(tmp_path / "deep" / "config", user=user))
    assert isinstance(credentials, Plain)
    assert credentials.authorization == header


def test_a_token_in_a_file_is_read_again_when_it_was_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    credentials = load(write(tmp_path / "config", user={"tokenFile": str(token)}))
    assert credentials.authorization == "Bearer old"
    token.write_text("new")
    assert credentials.authorization == "Bearer old", "from memory"
    assert asyncio.run(credentials.renew()) is False, "the connections are as good as before"
    assert credentials.authorization == "Bearer new"


def test_of_several_files_the_first_has_the_word_and_each_has_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "one" / "config", user={"tokenFile": "token"}, context="first")
    second = write(tmp_path / "two" / "config", server="https://127.0.0.1:2", user={"token": "no"}, context="second")
    (tmp_path / "one" / "token").write_text("yes")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{first}:{second}")
    for context in (None, "second"):
        credentials = load(None, context)
        assert (credentials.server, credentials.authorization) == ("https://127.0.0.1:1", "Bearer yes")
        assert credentials.context == context or context is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not a kubeconfig"),
        ("words", "is not a kubeconfig"),
        ("contexts: words", "is not a kubeconfig"),
        ("a: [", "cannot be read"),
        ("contexts: []", "it has no current context"),
        ("current-context: a\ncontexts: []", "there is no 'a' among its contexts"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: b}}]", "there is no 'b' among its clusters"),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: b}}]\nclusters: [{name: b}]",
            "nothing is not the address of a server",
        ),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_said(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(FleetError, match=words) as raised:
        load(path)
    assert str(path) in raised.value.message
    is_a_kubeconfig = "is not a kubeconfig" not in words and "cannot be read" not in words
    assert isinstance(raised.value, AccessError if is_a_kubeconfig else ConfigurationError)


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    broken = {"client-certificate-data": base64.b64encode(b"no").decode(), "client-key-data": "!"}
    with pytest.raises(AccessError, match="cannot be used with context ctx"):
        load(write(tmp_path / "config", server="https://127.0.0.1:1", user=broken))


def test_reads_writes_and_watches_load_neither_the_kubernetes_package_nor_aiohttp(cluster: Cluster) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from fleet.kube import watch\n"
        "from fleet.kube.client.client import Client\n"
        "from fleet.kube.runtime import guard, informer\n"
        f"maps = '/api/v1/namespaces/{cluster.namespace}/configmaps'\n"
        "async def main():\n"
        f"    async with Client.of(Path({str(cluster.kubeconfig)!r}), {cluster.context!r}) as client:\n"
        "        await client.discovery()\n"
        "        await client.request('POST', maps, body={'metadata': {'name': 'made'}})\n"
        "        async with client.stream(f'{maps}?watch=1', silence=10) as answer:\n"
        "            async for _ in answer.lines():\n"
        "                break\n"
        "asyncio.run(main())\n"
        "print(*sorted({'kubernetes', 'aiohttp', 'pydantic', 'requests', 'git'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
