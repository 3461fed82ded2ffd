"""The settings of an engine that others set up, by its flags, environment and file: here a server called busd."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.kit.adoption.flags import InFile, list_flags, read_number
from fleet.kit.adoption.settings import SettingsReader, check_known, check_leaving, find_data
from fleet.kit.adoption.workload import Process
from fleet.kit.driver import Problem

READER = SettingsReader(
    program="busd",
    prefix="BUSD_",
    table={**list_flags([("store-dir log-level", str), ("port", read_number)]), "cert": InFile(str, "file", "tls")},
    own=re.compile(r"name|routes|config"),
    signs=frozenset({"store-dir", "routes"}),
    file_flag="config",
)


def stateful(*command: str, **environment: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "bus",
        "command": list(command),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "conf", "mountPath": "/etc/busd"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    }
    volumes = [{"name": "conf", "configMap": {"name": "bus-conf"}}, {"name": "scratch", "emptyDir": {}}]
    return {
        "metadata": {"name": "bus", "namespace": "shop"},
        "spec": {
            "template": {"spec": {"containers": [container], "volumes": volumes}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    }


def texts(kind: str, name: str) -> dict[str, str] | None:
    files = {"busd.yaml": "port: 4223\nname: bus-0\n", "bad.yaml": "[", "stop.sh": "busctl leave --now"}
    return files if (kind, name) == ("ConfigMap", "bus-conf") else None


def read(found: dict[str, Any]) -> Any:
    process = READER.find_process(found, texts)
    assert process is not None
    return READER.read(process, texts, found)


def test_flags_beat_the_environment_and_are_typed() -> None:
    found = stateful("busd", "--port=4222", "--cert", "/tls/tls.crt", BUSD_PORT="1", BUSD_LOG_LEVEL="warn")
    assert read(found) == {"port": 4222, "log-level": "warn", "tls": {"file": "/tls/tls.crt"}}


def test_a_variable_that_is_no_setting_is_left_out_and_a_flag_that_is_none_is_a_problem() -> None:
    assert read(stateful("busd", BUSD_WHATEVER="1")) == {}
    problem = read(stateful("busd", "--whatever=1"))
    assert isinstance(problem, Problem) and "cannot be said in a file" in problem.message
    problem = read(stateful("busd", "--port=many"))
    assert isinstance(problem, Problem) and problem.field == "port"


def test_a_file_beats_flags() -> None:
    found = stateful("busd", "--config=/etc/busd/busd.yaml", "--port=1")
    assert read(found) == {"port": 4223, "name": "bus-0"}
    found = stateful("sh", "-c", "busd --config=/etc/busd/$HOSTNAME.yaml")
    problem = read(found)
    assert isinstance(problem, Problem) and "/etc/busd/bus-0.yaml is in no ConfigMap or Secret" in problem.message
    problem = read(stateful("busd", "--config=/etc/busd/bad.yaml"))
    assert isinstance(problem, Problem) and "is not a file of busd's" in problem.message


def test_a_process_is_known_by_its_program_or_by_what_nothing_else_is_told() -> None:
    image_decides = stateful(BUSD_STORE_DIR="/data")
    del image_decides["spec"]["template"]["spec"]["containers"][0]["command"]
    found = READER.find_process(image_decides, texts)
    assert found is not None and found.program == ""
    client = stateful(BUSD_LOG_LEVEL="warn", STORE_DIR="/data")  # variables of a client, and of anything
    del client["spec"]["template"]["spec"]["containers"][0]["command"]
    assert READER.find_process(client, texts) is None
    assert READER.find_process(stateful("redis-server"), texts) is None


def test_a_script_that_starts_it_in_two_ways_is_refused_but_for_a_members_own() -> None:
    def common(settings: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if not READER.is_own(name)}

    def check(script: str) -> Problem | None:
        found = stateful("sh", "-c", script)
        process = READER.find_process(found, texts)
        assert process is not None
        return READER.check_one_way(found, process, texts, common)

    assert check("if a; then busd --name=a --port=1; else busd --name=b --port=1; fi") is None
    problem = check("if a; then busd --port=1; else busd --port=2; fi")
    assert problem is not None and "in different ways" in problem.message


@pytest.mark.parametrize(
    ("program", "settings", "field"),
    [
        ("bin/busd", {}, "command"),
        ("busd", {"log-level": "$LEVEL"}, "log-level"),
        ("busd", {"tls": {"file": "/tls/{pod}.crt"}}, "file"),
        ("busd", {"listen": "{ip}:4222"}, "listen"),
    ],
)
def test_what_is_known_only_when_a_member_runs_is_a_problem(program: str, settings: Any, field: str) -> None:
    problem = check_known(Process("bus", program, (), {}), settings)
    assert problem is not None and problem.field == field


def test_what_is_the_same_for_all_is_none() -> None:
    assert check_known(Process("bus", "/bin/busd", (), {}), {"port": 4222, "log-level": "warn"}) is None


def test_a_hook_that_leaves_the_cluster_is_refused() -> None:
    found = stateful("busd")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "/etc/busd/stop.sh"]}}}
    process = Process("bus", "busd", (), {})
    problem = check_leaving(found, process, texts, frozenset({"busctl", "leave"}), "the bus")
    assert problem is not None and "takes the member out of the bus" in problem.message
    assert check_leaving(found, process, texts, frozenset({"busctl", "drain"}), "the bus") is None


def test_data_lies_on_one_volume_of_a_claim_template() -> None:
    found, process = stateful("busd"), Process("bus", "busd", (), {})
    assert find_data(found, process, ("store-dir", "/data/bus"), ("log-dir", "/data/log")) == "data"
    problem = find_data(found, process, ("store-dir", "/scratch/bus"))
    assert isinstance(problem, Problem) and "data does not last" in problem.message
    problem = find_data(found, process, ("store-dir", "/data/bus"), ("log-dir", "/scratch/log"))
    assert isinstance(problem, Problem) and problem.field == "log-dir"
