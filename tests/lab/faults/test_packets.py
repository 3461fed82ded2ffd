"""Which packets are met where, as data."""

from __future__ import annotations

from fleet.lab.faults.kinds.packets import (
    Chains,
    PacketEndpoint,
    Peer,
    api_server_peers,
    build_chains,
    node_peers,
    removal_script,
    restore_script,
)
from fleet.lab.spec import ClusterSpec

CLUSTER = ClusterSpec("c", "real", 3, {"kube-apiserver": 6443}, "10.200.0.0/16")


def node(index: int) -> PacketEndpoint:
    return PacketEndpoint(f"node/{index}", node_peers(CLUSTER, index), (index, 1.0, ""))


API = PacketEndpoint("kube-apiserver", api_server_peers(CLUSTER))


def test_between_two_nodes_packets_are_dropped_at_both_ends_in_both_directions() -> None:
    found = build_chains([node(1)], [node(2)], "DROP")
    assert found == {
        "node/1": Chains(
            ("-d 10.200.0.12 -j DROP", "-d 10.200.18.0/24 -j DROP"),
            ("-s 10.200.0.12 -j DROP", "-s 10.200.18.0/24 -j DROP"),
        ),
        "node/2": Chains(
            ("-d 10.200.0.11 -j DROP", "-d 10.200.17.0/24 -j DROP"),
            ("-s 10.200.0.11 -j DROP", "-s 10.200.17.0/24 -j DROP"),
        ),
    }


def test_one_way_means_packets_that_leave_the_first_side() -> None:
    found = build_chains([node(1)], [node(2)], "DROP", one_way=True)
    assert found["node/1"].outgoing
    assert not found["node/1"].incoming
    assert found["node/2"].incoming
    assert not found["node/2"].outgoing


def test_nodes_cut_off_together_still_reach_each_other() -> None:
    found = build_chains([node(1), node(2)], [], "DROP")
    assert found["node/1"].outgoing == (
        "-d 10.200.0.12 -j RETURN",
        "-d 10.200.18.0/24 -j RETURN",
        "-j DROP",
    )
    assert found["node/2"].incoming[-1] == "-j DROP"


def test_only_from_the_api_server_leaves_everything_else() -> None:
    found = build_chains([node(1)], [API], "DROP")
    assert found == {
        "node/1": Chains(
            (
                "-d 10.200.0.1 -p tcp --dport 6443 -j DROP",
                "-d 10.200.0.1 -p tcp --sport 10250 -j DROP",
                "-d 10.200.240.1 -p tcp --dport 443 -j DROP",
            ),
            (
                "-s 10.200.0.1 -p tcp --sport 6443 -j DROP",
                "-s 10.200.0.1 -p tcp --dport 10250 -j DROP",
                "-s 10.200.240.1 -p tcp --sport 443 -j DROP",
            ),
        )
    }


def test_what_shall_happen_once_happens_where_a_packet_leaves() -> None:
    found = build_chains([node(1)], [node(2)], "Q", once=True)
    assert [bool(one.incoming) for one in found.values()] == [False, False]
    assert [bool(one.outgoing) for one in found.values()] == [True, True]
    alone = build_chains([node(1)], [API], "Q", once=True)["node/1"]
    assert alone.outgoing  # the API server's own network is the machine's, which stays untouched
    assert alone.incoming
    there = build_chains([node(1)], [node(2)], "Q", once=True, one_way=True)
    assert list(there) == ["node/1"]


def test_what_is_made_is_what_is_taken_away() -> None:
    rules = Chains((f"{Peer('10.0.0.1').match(outgoing=True)} -j DROP",), ("-j DROP",))
    made = restore_script(12, rules, first=True)
    assert "-I POSTROUTING -o eth0 -j FLEET-FAULT-12-OUT" in made
    assert "-A FLEET-FAULT-12-OUT -d 10.0.0.1 -j DROP" in made
    assert "-A PREROUTING -i eth0 -j FLEET-FAULT-12-IN" in restore_script(12, rules, first=False)
    present = "\n".join(
        [
            "*mangle",
            ":PREROUTING ACCEPT [0:0]",
            ":FLEET-FAULT-1-IN - [0:0]",
            ":FLEET-FAULT-12-IN - [0:0]",
            ":FLEET-FAULT-12-OUT - [0:0]",
            "-A PREROUTING -i eth0 -j FLEET-FAULT-1-IN",
            "-A PREROUTING -i eth0 -j FLEET-FAULT-12-IN",
            "-A POSTROUTING -o eth0 -j FLEET-FAULT-12-OUT",
            "-A FLEET-FAULT-12-OUT -d 10.0.0.1/32 -j DROP",
            "COMMIT",
        ]
    )
    assert removal_script(12, present).splitlines() == [
        "*mangle",
        "-D PREROUTING -i eth0 -j FLEET-FAULT-12-IN",
        "-D POSTROUTING -o eth0 -j FLEET-FAULT-12-OUT",
        "-F FLEET-FAULT-12-OUT",
        "-X FLEET-FAULT-12-OUT",
        "-F FLEET-FAULT-12-IN",
        "-X FLEET-FAULT-12-IN",
        "COMMIT",
    ]
    assert removal_script(2, present) == ""
