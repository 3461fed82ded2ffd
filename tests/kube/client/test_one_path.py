"""There is one HTTP path to API servers, and one loop that follows objects; these are all modules that have another."""

from __future__ import annotations

from tests.sync.test_commit import files_with

HTTP = r"(?m)^\s*(?:import|from) (?:aiohttp|http\.client|urllib\.request|requests|httpx)\b"


def test_reads_writes_and_watches_go_through_the_pool() -> None:
    """What imports another HTTP client in `fleet.kube`: commands in pods (a websocket), and the operator's own server
    of metrics and health.
    """
    modules = {name for name in files_with(HTTP) if name.startswith("kube/")}
    commands = {"kube/exec.py", *(f"kube/client/{name}.py" for name in ("client", "credentials", "session"))}
    assert modules == {*commands, "kube/runtime/operator.py"}
    assert files_with(r"(?<!class )\bConnectionPool\(") == {"kube/client/client.py"}
    assert files_with(r"(?<!class )\bSession\(self\._open_credentials") == {"kube/client/client.py"}


def test_one_loop_lists_and_watches() -> None:
    assert files_with(r"(?<!class )\bListWatch\(") == {"kube/watch.py", "kube/runtime/informer.py"}
    assert files_with(r"""["?&]watch(?:=|":\s*")(?:1|true)""") == {"kube/list_watch.py"}


def test_what_else_talks_to_api_servers_is_no_part_of_the_product() -> None:
    """The lab, before there is a kubeconfig, and the proxies that labs and tests put in front of a server."""
    outside = {name for name in files_with(HTTP) if name.startswith(("lab/cluster/", "lab/proxy/", "testing/proxy"))}
    assert outside == {"lab/cluster/api.py", "lab/proxy/proxy.py", "testing/proxy.py"}
