"""The lockfile of stacks: exact versions with hashes, and nothing that could send a fetch elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.errors import ConfigurationError, Source
from fleet.repository import Repository
from fleet.repository.lockfile import read_lock

ONE, TWO = f"sha256:{'a' * 64}", f"sha512:{'b' * 128}"


def test_it_is_read_as_pip_writes_it() -> None:
    text = f"""
# made by a tool
Typing_Tools[extra]==1.2.post1 \\
    --hash={ONE} \\
    --hash={TWO}
    # via something
small==0.1 ; python_version >= "3.11" and sys_platform == 'linux' --hash={ONE}  # why
"""
    first, second = read_lock("a.lock", text).pinned
    assert (first.name, first.version, first.hashes, first.marker, first.line) == (
        "typing-tools", "1.2.post1", (ONE, TWO), "", 3,
    )  # fmt: skip
    assert str(first) == f"typing-tools==1.2.post1 --hash={ONE} --hash={TWO}"
    assert str(second) == f"small==0.1 ; python_version >= \"3.11\" and sys_platform == 'linux' --hash={ONE}"
    assert second.line == 7


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://elsewhere.example/simple",
        "-r other.txt",
        "-e .",
        f"small @ https://elsewhere.example/small.whl --hash={ONE}",
        f"./small.whl --hash={ONE}",
        f"small>=1 --hash={ONE}",
        f"small==1.* --hash={ONE}",
        f"small==1 --index-url=https://elsewhere.example --hash={ONE}",
        f"small==1 --hash={ONE} --global-option=x",
        f"small==1 ; $(id) --hash={ONE}",
        f"--find-links==1 --hash={ONE}",
    ],
)
def test_anything_else_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ConfigurationError, match="is no package with its version and hash") as refused:
        read_lock("stacks/a.lock", f"fine==1 --hash={ONE}\n{line}\n")
    assert refused.value.source == Source("stacks/a.lock", 2)
    assert "--generate-hashes" in str(refused.value.hint)


@pytest.mark.parametrize(
    "hashes", ["", " --hash=md5:00", " --hash=sha256:short", f" --hash={ONE} --hash=sha1:{'0' * 40}"]
)
def test_a_hash_that_is_missing_or_weak_is_refused(hashes: str) -> None:
    with pytest.raises(ConfigurationError, match=r"small has no hash|is none that can be checked"):
        read_lock("a.lock", f"small==1{hashes}")


def test_it_lies_where_the_settings_say_and_need_not_be_there(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("")
    assert Repository.at(tmp_path).lock().pinned == ()
    (tmp_path / "fleet.toml").write_text('[paths]\nlock = "deps/my.lock"\n')
    (tmp_path / "deps").mkdir()
    (tmp_path / "deps/my.lock").write_text(f"small==1 --hash={ONE}")
    assert [one.name for one in Repository.at(tmp_path).lock().pinned] == ["small"]
    assert Repository.at(tmp_path, locked="").lock().of_base
    (tmp_path / "fleet.toml").write_text('[paths]\nlock = "../elsewhere"\n')
    with pytest.raises(ConfigurationError, match="does not take") as refused:
        Repository.at(tmp_path)
    assert refused.value.field == "paths.lock"


def test_one_that_leads_out_of_the_repository_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "tree/stacks").mkdir(parents=True)
    (tmp_path / "tree/fleet.toml").write_text("")
    (tmp_path / "outside").write_text(f"small==1 --hash={ONE}")
    (tmp_path / "tree/stacks/requirements.lock").symlink_to(tmp_path / "outside")
    assert Repository.at(tmp_path / "tree").lock().pinned == ()
