"""How a command in a pod ended, and what is asked to run it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from fleet.errors import ResourceError
from fleet.kube.exec import Command, exit_code


def test_arguments_reach_the_program_as_they_are() -> None:
    argv = ["etcdctl", "put", "a key", "100% & more=yes\n"]
    path = Command("shop", "registry-0", "etcd", argv).path(stdin=False)
    assert urlsplit(path).path == "/api/v1/namespaces/shop/pods/registry-0/exec"
    asked = parse_qsl(urlsplit(path).query)
    assert [value for name, value in asked if name == "command"] == argv
    assert dict(asked) | {"command": ""} == {
        "command": "",
        "container": "etcd",
        "stdout": "true",
        "stderr": "true",
        "stdin": "false",
    }


def test_the_exit_code_is_the_programs_own() -> None:
    assert exit_code({"status": "Success"}) == 0
    causes = [{"reason": "ExitCode", "message": "3"}]
    assert exit_code({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}) == 3


def test_a_program_that_was_not_started_has_none() -> None:
    with pytest.raises(ResourceError, match="executable file not found"):
        exit_code({"status": "Failure", "message": "exec failed: executable file not found"})
