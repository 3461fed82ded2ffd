"""What has happened between two looks at a fleet and how it is shown, from data; and the whole at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from dataclasses import replace

from rich.console import Console

from fleet.cli.commands.watch import WatchView, format_rows
from fleet.sync.observe import FleetSnapshot, StackStatus, Warn, describe_changes
from fleet.sync.result import ObjectHealth
from tests.sync.fleet_repository import FleetRepository, config_map

ETCD = ObjectHealth("Etcd", "orders", "registry", "Healthy", "", "3.6.1", True, "3/3", "yes")
WELL = StackStatus("orders", "eu", "a" * 40, "Healthy", (ETCD,))


def sight(
    *stacks: StackStatus, failed: dict[str, str] | None = None, warnings: frozenset[Warn] = frozenset()
) -> FleetSnapshot:
    return FleetSnapshot({(one.stack, one.cluster): one for one in stacks}, failed or {}, warnings)


def test_the_first_look_says_how_everything_is() -> None:
    assert describe_changes(None, sight(WELL, failed={"us": "no route"})) == [
        "us: cannot be asked: no route",
        "orders on eu: Healthy at aaaaaaaa",
    ]
    assert describe_changes(sight(WELL), sight(WELL)) == []


def test_every_later_one_what_is_different() -> None:
    ill = ETCD._replace(state="Degraded", message="no quorum", members="1/3")
    now = replace(WELL, revision="b" * 40, health="Degraded", objects=(ill,), suspended="suspended by ada")
    warn = Warn("eu", "u", 1, "Pod orders/registry-0: BackOff: restarting")
    assert describe_changes(sight(WELL), sight(now, warnings=frozenset({warn}))) == [
        "orders on eu: aaaaaaaa → bbbbbbbb",
        "orders on eu: Healthy → Degraded (Etcd orders/registry: no quorum)",
        "orders on eu: suspended by ada",
        "orders on eu: Etcd orders/registry 3.6.1 1/3 Degraded: no quorum",
        "eu: Pod orders/registry-0: BackOff: restarting",
    ]
    assert describe_changes(sight(WELL), sight()) == ["orders on eu: is gone"]


def test_a_cluster_that_is_silent_is_told_once_and_so_is_its_return() -> None:
    silent = sight(WELL, failed={"eu": "no route"})
    assert describe_changes(sight(WELL), silent) == ["eu: cannot be asked: no route"]
    assert describe_changes(silent, silent) == []
    assert describe_changes(silent, sight(WELL)) == ["eu: answers again"]
    assert (sight(WELL).is_well, silent.is_well) == (True, False)


def rows(found: FleetSnapshot, *, width: int = 120, height: int = 40) -> list[str]:
    lines = format_rows(found, ["eu", "us"], width=width, height=height)
    return ["".join(cell.text for cell in row).rstrip() for row in lines]


def test_the_table_has_a_line_for_each_stack_and_a_column_for_each_cluster() -> None:
    ill = replace(WELL, stack="web", cluster="us", health="Degraded", objects=(), suspended="suspended by ada")
    found = sight(WELL, replace(WELL, stack="web", objects=()), ill, failed={"us": "no route"})
    assert rows(found) == [
        "STACK    eu                     us (does not answer)",
        "web      Healthy aaaaaaaa       Degraded aaaaaaaa suspended",
        "orders   Healthy 3/3 aaaaaaaa   –",
    ], "what is not well comes first"
    styles = {
        cell.text.strip(): cell.style for row in format_rows(found, ["eu", "us"], width=120, height=40) for cell in row
    }
    assert styles["Degraded aaaaaaaa suspended"] == "red"
    assert styles["Healthy 3/3 aaaaaaaa"] == "green"


def test_it_fits_whatever_the_terminal_is_like() -> None:
    many = [replace(WELL, stack=f"s{number:02}", objects=()) for number in range(30)]
    ill = replace(WELL, stack="z", health="Progressing", objects=())
    found = rows(sight(*many, ill), height=10)
    assert len(found) == 10
    assert found[1].startswith("z ")
    assert found[-1] == "… and 23 more"
    narrow = rows(sight(WELL, replace(ill, cluster="us")), width=40)
    assert narrow == [
        "STACK    CLUSTER",
        "z        us        Progressing aaaaaaaa",
        "orders   eu        Healthy 3/3 aaaaaaaa",
    ], "clusters that do not fit side by side stand below each other"


def test_the_view_is_drawn_with_its_events_and_no_wider_than_the_terminal() -> None:
    view = WatchView(["eu", "us"])
    console = Console(width=44, height=12, force_terminal=False)

    def drawn() -> str:
        with console.capture() as captured:
            console.print(view)
        return captured.get()

    assert drawn().strip() == "looking …"
    view.sight = sight(WELL)
    view.events.extend(f"12:00:{number:02}  orders on eu: something that takes a while to say" for number in range(20))
    lines = drawn().splitlines()
    assert max(map(len, lines)) <= 44
    assert (lines[0].split(), lines[1].split()[0]) == (["STACK", "eu", "us"], "orders")
    assert lines[-1].startswith("12:00:19"), "the newest is last"
    assert "…" in lines[-1]


def test_at_a_terminal_it_is_a_table_that_ends_when_all_is_well(repository: FleetRepository) -> None:
    eu, us = repository.clusters
    repository.wants(config_map("settings", {"a": "1"}))
    revision = repository.commit()
    assert repository.sync("--no-status").code == 0
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 160, 0, 0))
    command = [
        sys.executable,
        "-m",
        "fleet",
        "watch",
        "--stack",
        repository.stack,
        "--until-healthy",
        "--timeout",
        "60s",
    ]
    shown = bytearray()

    def read() -> None:
        try:
            while part := os.read(master, 65536):
                shown.extend(part)
        except OSError:
            return  # the other side is closed

    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {"TERM": "xterm-256color"}
    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(command, cwd=repository.root, env=environment, stdout=slave, stderr=slave, check=False)
    os.close(slave)
    reader.join(30)
    os.close(master)
    text = shown.decode()
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "\n").splitlines()
    assert done.returncode == 0, text
    assert ["STACK", eu.name, us.name] in [line.split() for line in lines]
    assert f"Healthy {revision[:8]}" in text
    assert any(f"{repository.stack} on {us.name}: Healthy at {revision[:8]}" in line for line in lines)
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is given back"
