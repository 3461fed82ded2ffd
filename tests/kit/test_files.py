"""Members' files by pod and revision: which there are, what they say, and for how long they are kept."""

from __future__ import annotations

import re
from dataclasses import replace

from fleet.kit.members import LEDGER, Ledger, MemberRecord, founders, read
from fleet.kit.workload.files import files, members_map, revision, revisions_in_use
from fleet.kit.workload.pods import pod_template
from tests.kit import nats, pair
from tests.kit.nats import NATS
from tests.kit.pair import PAIR

BUS = founders(("bus-0",))
ROLES = Ledger(
    places={
        "cache-0": MemberRecord("founding", cluster=("cache-0",)),
        "cache-1": MemberRecord("joining", cluster=("cache-0",)),
        "cache-sentinel-0": MemberRecord("founding", role="sentinel"),
    }
)


def test_a_member_has_the_file_that_its_pod_names() -> None:
    app = nats.app(storage="16Gi")
    made = members_map(NATS, app, BUS, {}, ())
    (argument,) = pod_template(NATS, app, "nats")["spec"]["containers"][0]["args"]
    name = argument.removeprefix("--config=/etc/nats/").replace("$(POD_NAME)", "bus-0")
    assert made["data"] == {
        name: "server_name: bus-0\nport: 4222\nhttp_port: 8222\nmax_payload: 1048576\ndebug: false\n"
        "jetstream { store_dir: /data, max_file: 16Gi }\n"
    }
    assert made["metadata"]["name"] == "bus-members"
    assert read(made["metadata"]["annotations"][LEDGER]) == BUS


def test_a_setting_that_members_take_while_they_run_is_in_the_file_and_not_in_the_revision() -> None:
    before, after = nats.app(), nats.app(debug=True)
    assert revision(NATS, before) == revision(NATS, after)
    (text,) = files(NATS, after, BUS, {}, ()).values()
    assert "debug: true" in text
    assert revision(NATS, nats.app(max_payload=2048)) != revision(NATS, before)


def test_the_file_that_a_pod_was_made_with_stays_as_long_as_the_pod() -> None:
    before, after = nats.app(), nats.app(max_payload=2048)
    present = files(NATS, before, BUS, {}, ())
    both = files(NATS, after, BUS, present, {revision(NATS, before)})
    assert present.items() <= both.items() and len(both) == 2
    assert len(files(NATS, after, BUS, both, ())) == 1
    gone = replace(BUS, places={"bus-1": BUS.places["bus-0"]})
    assert not [name for name in files(NATS, after, gone, both, {revision(NATS, before)}) if name.startswith("bus-0.")]


def test_a_change_of_one_role_touches_no_pod_of_another() -> None:
    before, after = pair.app(), pair.app(failover_seconds=30)
    assert revision(PAIR, before) == revision(PAIR, after)
    assert revision(PAIR, before, "sentinel") != revision(PAIR, after, "sentinel")
    present = files(PAIR, before, ROLES, {}, ())
    used = {revision(PAIR, before), revision(PAIR, before, "sentinel")}
    both = files(PAIR, after, ROLES, present, used)
    assert present.items() <= both.items()
    (added,) = both.keys() - present.keys()
    assert added == f"cache-sentinel-0.{revision(PAIR, after, 'sentinel')}.sentinel.conf"


def test_roles_with_the_same_settings_have_revisions_of_their_own() -> None:
    class Bare(pair.PairType):
        settings = ()

    assert revision(Bare(), pair.app()) != revision(Bare(), pair.app(), "sentinel")


def test_what_an_empty_volume_may_become_follows_from_the_phase() -> None:
    made = files(PAIR, pair.app(), ROLES, {}, ())
    texts = {name.partition(".")[0]: text for name, text in made.items()}
    assert "replicaof" not in texts["cache-0"]
    assert "replicaof cache-0 6379" in texts["cache-1"]
    settled = ROLES.with_place("cache-0", MemberRecord("settled"))
    (text,) = (text for name, text in files(PAIR, pair.app(), settled, {}, ()).items() if name.startswith("cache-0."))
    assert "replicaof this-node-has-lost-its-data.invalid" in text, "it serves nobody, and is copied by nobody"


def test_revisions_in_use_are_read_from_commands_arguments_and_init_steps() -> None:
    app = pair.app()
    specs = [pod_template(PAIR, app, "redis", role=role)["spec"] for role in ("", "sentinel")]
    assert revisions_in_use({"/etc/redis"}, specs) == {revision(PAIR, app), revision(PAIR, app, "sentinel")}
    assert revisions_in_use({"/etc/nats"}, specs) == set()
    (spec,) = [pod_template(NATS, nats.app(), "nats")["spec"]]
    assert revisions_in_use({"/etc/nats"}, [spec]) == {revision(NATS, nats.app())}
    others = {"containers": [{"args": ["--config=/etc/nats/own.conf", "--x=/tmp/a.0123456789.conf"]}]}
    assert revisions_in_use({"/etc/nats"}, [others]) == set()


def test_files_of_others_in_the_map_are_not_kept() -> None:
    present = {"notes.txt": "mine", "bus-0.0123456789.nats.conf": "old", "bus-0.abc.nats.conf": "odd"}
    kept = files(NATS, nats.app(), BUS, present, {"0123456789", "abc"})
    assert kept.pop("bus-0.0123456789.nats.conf") == "old"
    assert all(re.fullmatch(r"bus-0\.[0-9a-f]{10}\.nats\.conf", name) for name in kept)
