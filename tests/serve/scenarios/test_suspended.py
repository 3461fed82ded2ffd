"""A stack that somebody suspended, as the service meets it, also in a cluster that does not have the word."""

from __future__ import annotations

from pathlib import Path

from fleet.testing.proxy import Answer, Match, Plan, Proxy, Rule
from tests.serve.proxied_cluster import behind
from tests.serve.running_service import Served
from tests.sync.fleet_repository import config_map


def test_a_word_for_everywhere_holds_in_a_cluster_that_joins_later_and_while_the_others_are_silent(
    served: Served, tmp_path: Path
) -> None:
    repository = served.repository
    eu, us = repository.clusters
    with Proxy(eu.kubeconfig, eu.context, tmp_path) as proxy:
        served.environment["KUBECONFIG"] = str(behind(repository, proxy, tmp_path / "behind"))
        repository.wants(config_map("settings", {"a": "1"}), clusters=[eu.name])
        first = served.push()
        served.start()
        served.until("it is there", lambda: served.record(eu.name).get("revision") == first)
        assert repository.fleet("suspend", repository.stack, "--reason", "an audit").code == 0
        repository.wants(config_map("settings", {"a": "2"}))
        second = served.push()
        served.until("it is told", lambda: served.record(us.name).get("wanted") == second)
        assert (served.record(us.name)["sync"], served.data(us, "settings")) == ("Suspended", None)
        assert "an audit" in served.record(us.name)["message"]
        served.until("so it is where it was", lambda: served.record(eu.name).get("wanted") == second)
        assert served.data(eu, "settings") == {"a": "1"}

        proxy.plan = Plan([Rule(Match(), Answer(500))])
        repository.wants(config_map("settings", {"a": "3"}))
        third = served.push()
        served.until("it is tried again", lambda: served.record(us.name).get("wanted") == third)
        assert (served.record(us.name)["sync"], served.data(us, "settings")) == ("Suspended", None)

        proxy.plan = Plan()
        assert repository.fleet("resume", repository.stack).code == 0
        repository.wants(config_map("settings", {"a": "4"}))
        fourth = served.push()
        served.until("both go on", lambda: all(served.record(one.name)["revision"] == fourth for one in (eu, us)))
        assert served.data(eu, "settings") == served.data(us, "settings") == {"a": "4"}
