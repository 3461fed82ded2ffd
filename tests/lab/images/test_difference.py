"""A layer has what one root file system adds to another, and says what is gone."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from fleet.lab.images.archive import write_difference

BASE = {"./": None, "./etc/": None, "./etc/passwd": "root", "./etc/same": "same", "./etc/gone": "x"}


def tree(target: Path, files: dict[str, str | None], *, mode: int = 0o644) -> Path:
    with tarfile.open(target, "w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.mode = mode if text is not None else 0o755
            if text is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(text)
            tar.addfile(member, io.BytesIO((text or "").encode()))
    return target


def layer(tmp_path: Path, below: Path, whole: Path, *without: str) -> dict[str, bytes]:
    write_difference(below, whole, tmp_path / "layer.tar", without=without)
    with tarfile.open(tmp_path / "layer.tar") as tar:
        contents = {member.name: tar.extractfile(member) for member in tar}
        return {name: content.read() if content else b"" for name, content in contents.items()}


def test_what_is_new_or_changed_is_in_the_layer_and_what_is_gone_is_named(tmp_path: Path) -> None:
    below = tree(tmp_path / "below.tar", BASE)
    whole = {name: text for name, text in BASE.items() if name != "./etc/gone"}
    whole |= {"./etc/passwd": "root\nredis", "./usr/": None, "./usr/redis": "program"}
    found = layer(tmp_path, below, tree(tmp_path / "whole.tar", whole))
    assert found == {"etc/passwd": b"root\nredis", "usr": b"", "usr/redis": b"program", "etc/.wh.gone": b""}


def test_a_directory_that_is_gone_is_named_once(tmp_path: Path) -> None:
    below = tree(tmp_path / "below.tar", {**BASE, "./var/": None, "./var/a": "a", "./var/b": "b"})
    assert layer(tmp_path, below, tree(tmp_path / "whole.tar", BASE)) == {".wh.var": b""}


def test_what_is_unwanted_is_left_out_and_hides_nothing_below(tmp_path: Path) -> None:
    below = tree(tmp_path / "below.tar", BASE)
    whole = tree(tmp_path / "whole.tar", {**BASE, "./etc/passwd": "other", "./usr/lib/x/libLLVM.so": "large"})
    assert layer(tmp_path, below, whole, "/usr/lib/*/libLLVM*", "/etc/passwd") == {}


def test_another_mode_is_a_change(tmp_path: Path) -> None:
    below = tree(tmp_path / "below.tar", {"./a": "a"})
    assert layer(tmp_path, below, tree(tmp_path / "whole.tar", {"./a": "a"}, mode=0o755)) == {"a": b"a"}


def test_long_names_are_as_they_should_be(tmp_path: Path) -> None:
    path = "usr/" + "long/" * 60 + "name"
    below = tree(tmp_path / "below.tar", BASE)
    assert layer(tmp_path, below, tree(tmp_path / "whole.tar", {**BASE, f"./{path}": "x"})) == {path: b"x"}
