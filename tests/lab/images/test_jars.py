"""Jars are exactly those that are locked, from the repository that this machine's settings name."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, ResourceError
from fleet.lab.images import jars
from fleet.lab.images import jars as locks
from fleet.lab.images.jars import Jar
from fleet.lab.images.recipes import Recipe, all_recipes

PATH = "org/example/thing/1/thing-1.jar"
CONTENT = b"a jar"
LOCKED = Jar(hashlib.sha256(CONTENT).hexdigest(), "/opt/thing", PATH)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository on loopback that the settings name as a mirror of Maven Central."""
    files = tmp_path / "files"
    (files / PATH).parent.mkdir(parents=True)
    (files / PATH).write_bytes(CONTENT)
    server = HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(files)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings(tmp_path, "central", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    yield files
    server.shutdown()
    server.server_close()


def settings(home: Path, of: str, url: str) -> None:
    (home / ".m2").mkdir(exist_ok=True)
    (home / ".m2" / "settings.xml").write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror><id>here</id>'
        f"<mirrorOf>{of}</mirrorOf><url>{url}/</url></mirror></mirrors></settings>"
    )


def test_a_jar_is_fetched_once_and_kept(mirror: Path) -> None:
    assert [file.read_bytes() for file in jars.fetch_jars([LOCKED])] == [CONTENT]
    (mirror / PATH).unlink()
    assert [file.read_bytes() for file in jars.fetch_jars([LOCKED])] == [CONTENT]


def test_a_kept_jar_that_was_damaged_is_fetched_again(mirror: Path) -> None:
    jars.fetch_jars([LOCKED])[0].write_bytes(b"damaged")
    assert jars.fetch_jars([LOCKED])[0].read_bytes() == CONTENT


def test_another_file_under_the_same_name_is_refused(mirror: Path) -> None:
    (mirror / PATH).write_bytes(b"another")
    with pytest.raises(ResourceError, match="is not the file that is locked"):
        jars.fetch_jars([LOCKED])
    assert not any((mirror.parent / "cache").rglob("*.jar"))


def test_a_repository_without_the_jar_is_named(mirror: Path) -> None:
    (mirror / PATH).unlink()
    with pytest.raises(ResourceError, match=r"thing-1\.jar could not be fetched: HTTP Error 404"):
        jars.fetch_jars([LOCKED])


@pytest.mark.parametrize(
    ("of", "used"), [("central", True), ("*", True), ("external:*", True), ("*,!central", False), ("other", False)]
)
def test_a_mirror_is_used_if_it_is_one_of_central(
    of: str, used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jars.central_url() == jars.CENTRAL
    settings(tmp_path, of, "https://mirror.example.com/maven")
    assert jars.central_url() == ("https://mirror.example.com/maven" if used else jars.CENTRAL)


def test_every_recipe_with_jars_has_a_lock_of_them() -> None:
    found = [recipe for recipe in all_recipes() if recipe.jars]
    assert {recipe.name for recipe in found} == {"kafka", "opensearch"}
    for recipe in found:
        jars = locks.read_lock(recipe)
        assert {jar.directory for jar in jars} == set(recipe.jars)
        assert len({jar.path for jar in jars}) == len(jars)
        assert locks.format_lock(jars) == locks.lock_file(recipe).read_text()


def test_a_lock_of_other_artifacts_than_the_recipe_names_is_refused() -> None:
    jars = {"/opt/kafka/lib": ("org.apache.kafka:kafka_2.13:9.9.9",)}
    recipe = Recipe("kafka", "4.1", "trixie", (), (), jars=jars)
    with pytest.raises(ConfigurationError, match=r"does not have org\.apache\.kafka:kafka_2\.13:9\.9\.9"):
        locks.read_lock(recipe)
