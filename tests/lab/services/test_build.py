"""Programs that read files when they run have them beside the binary, and get them again when they are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.lab.programs.build import Files, Module, build_module

MAIN = 'package main\n\nimport _ "example.com/greeting"\n\nfunc main() {}\n'
GREETING = "module example.com/greeting\n\ngo 1.26.0\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """A program that needs another module, which has files."""
    monkeypatch.setenv("FLEET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("fleet.lab.files.modules_directory", lambda: tmp_path / "go")
    needed = tmp_path / "go" / "greeting"
    (needed / "words" / "deep").mkdir(parents=True)
    (needed / "go.mod").write_text(GREETING)
    (needed / "greeting.go").write_text("package greeting\n")
    (needed / "words" / "deep" / "en").write_text("hello")
    (needed / "words" / "left-out").write_text("")
    own = tmp_path / "go" / "greet"
    own.mkdir()
    own.joinpath("main.go").write_text(MAIN)
    requires = "require example.com/greeting v0.0.0\n\nreplace example.com/greeting => ../greeting\n"
    own.joinpath("go.mod").write_text(f"module example.com/greet\n\ngo 1.26.0\n\n{requires}")
    files = Files("example.com/greeting", ("words/deep", "go.mod"))
    return Module("greet", "1", programs=("greet",), files=files)


def test_the_files_that_a_program_reads_are_beside_it_and_no_others(module: Module) -> None:
    programs = build_module(module)
    assert (programs / "greet").is_file()
    assert (programs / "words" / "deep" / "en").read_text() == "hello"
    assert (programs / "go.mod").read_text() == GREETING
    assert not (programs / "words" / "left-out").exists()


@pytest.mark.parametrize("damage", ["changed", "gone", "added"])
def test_a_damaged_file_is_found_and_copied_again(module: Module, damage: str) -> None:
    words = build_module(module) / "words" / "deep"
    match damage:
        case "changed":
            (words / "en").write_text("jello")
        case "gone":
            (words / "en").unlink()
        case "added":
            (words / "fr").write_text("allo")
    words = build_module(module) / "words" / "deep"
    assert [(file.name, file.read_text()) for file in words.iterdir()] == [("en", "hello")]
