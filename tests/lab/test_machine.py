"""The comparison that says whether anything of a lab is left."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import psutil

from fleet.lab.programs import process
from fleet.lab.spec import directory_identity
from tests.lab.machine import Machine, difference, lab_of, mark

OWN, OTHER = Path("/nowhere/labs/own-2"), Path("/nowhere/labs/own")


def machine(links: set[str], processes: set[str], labs: set[Path]) -> Machine:
    return Machine({"links": links, "processes": processes, "files": set()}, labs)


def test_things_of_another_lab_that_runs_are_not_counted() -> None:
    before = machine({"eth0"}, set(), set())
    after = machine({"eth0", f"fl{directory_identity(OTHER)}-200"}, {f"7 etcd {OTHER}"}, {OTHER})
    assert difference(before, after, OWN) == {}


def test_things_of_the_lab_itself_and_of_nobody_are_left_behind() -> None:
    link = f"fl{directory_identity(OWN)}-200"
    before = machine({"eth0"}, set(), {OTHER})
    after = machine({"eth0", link, "veth7"}, {f"7 etcd {OWN}", "8 pause"}, {OWN, OTHER})
    assert difference(before, after, OWN) == {"links": {link, "veth7"}, "processes": {f"7 etcd {OWN}", "8 pause"}}


def test_a_lab_that_has_no_process_yet_has_its_links_already() -> None:
    after = machine({"eth0", "flabcdef-201"}, set(), set())
    assert difference(machine({"eth0"}, set(), set()), after, OWN) == {}


def test_a_process_with_an_environment_of_its_own_is_of_the_lab_that_started_it() -> None:
    command = ["sh", "-c", "env -i sleep 60; true"]  # as git does for its hooks, and Gitea is one
    with subprocess.Popen(command, env={**os.environ, process.MARK: str(OTHER)}) as parent:
        try:
            while not (children := psutil.Process(parent.pid).children()) or children[0].name() != "sleep":
                time.sleep(0.01)
            child = children[0]
            assert mark(child) == ""
            assert lab_of(child) == str(OTHER)
        finally:
            parent.kill()
            child.kill()
            child.wait()
    assert lab_of(child) == ""
