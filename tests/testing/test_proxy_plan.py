"""What a proxy's plan makes of requests: decisions, with data only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fleet.errors import ConfigurationError
from fleet.lab.proxy.actions import Act
from fleet.lab.proxy.proxy import json_accept
from fleet.lab.proxy.response import GONE, CutError, LeaseClock, ResponseShape
from fleet.testing.proxy import (
    Answer,
    Break,
    Call,
    Cut,
    Delay,
    DelayEvents,
    DropEvents,
    Expire,
    Freeze,
    Kill,
    Lose,
    Match,
    Plan,
    Rule,
    SkewLeases,
    State,
    decide,
)

PODS = "/api/v1/namespaces/default/pods"
GET, WATCH = Call.of("GET", f"{PODS}/web-0", "kubectl/v1"), Call.of("GET", f"{PODS}?watch=1&labelSelector=a")
PATCH = Call.of("PATCH", "/apis/apps/v1/namespaces/shop/statefulsets/db?fieldManager=me", "fleet/1")
EVERYTHING = (
    Rule(Match(verb="watch", resource="configmaps"), Cut(after_events=2, after_bytes=100), nth=3),
    Rule(Match(writes=True), Lose(), every=5),
    Rule(Match(group="", path="/readyz"), Answer(429, "busy", retry_after=3), share=0.25),
    Rule(Match(agent="kubectl", namespace="a", name="b"), Kill(before=True), first=1),
    *(Rule(Match(), act) for act in (Delay(0.5), Break(), Freeze(10), DropEvents(nth=2), DropEvents(every=3))),
    *(Rule(Match(), act) for act in (DelayEvents(1.5), Expire(4), SkewLeases(-40.0))),
)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", ("list", "", "pods", "", "")),
        ("GET", "/api/v1/pods?watch=true", ("watch", "", "pods", "", "")),
        ("GET", "/api/v1/watch/namespaces/a/pods", ("watch", "", "pods", "a", "")),
        ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", ("get", "", "pods/log", "a", "b")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "namespaces", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "namespaces/finalize", "a", "a")),
        ("POST", "/apis/apps/v1/namespaces/a/statefulsets", ("create", "apps", "statefulsets", "a", "")),
        ("DELETE", "/apis/fleet.dev/v1/namespaces/a/etcds/b", ("delete", "fleet.dev", "etcds", "a", "b")),
        ("DELETE", "/api/v1/namespaces/a/secrets", ("deletecollection", "", "secrets", "a", "")),
        ("GET", "/api/v1/nodes/system%3Anode", ("get", "", "nodes", "", "system:node")),
        ("GET", "/readyz", ("get", "", "", "", "")),
        ("GET", "/apis/apps/v1", ("get", "apps", "", "", "")),
        ("GET", "/api", ("get", "", "", "", "")),
    ],
)
def test_a_request_is_understood_as_the_server_does(method: str, path: str, expected: tuple[str, ...]) -> None:
    call = Call.of(method, path)
    assert (call.verb, call.group, call.resource, call.namespace, call.name) == expected


@pytest.mark.parametrize(
    ("method", "path", "writes"),
    [
        ("PATCH", f"{PODS}/a", True),
        ("PATCH", f"{PODS}/a?dryRun=All", False),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
        ("GET", f"{PODS}/a", False),
    ],
)
def test_only_what_can_change_something_is_a_write(method: str, path: str, writes: bool) -> None:
    assert Call.of(method, path).writes is writes


@pytest.mark.parametrize(
    ("match", "matched"),
    [
        (Match(), [GET, WATCH, PATCH]),
        (Match(verb="watch"), [WATCH]),
        (Match(resource="pods"), [GET, WATCH]),
        (Match(group="apps"), [PATCH]),
        (Match(group=""), [GET, WATCH]),
        (Match(namespace="default", name="web-0"), [GET]),
        (Match(writes=True), [PATCH]),
        (Match(writes=False, agent="kubectl"), [GET]),
        (Match(path="labelSelector="), [WATCH]),
        (Match(resource="pods/log"), []),
    ],
)
def test_a_match_is_all_that_it_says(match: Match, matched: list[Call]) -> None:
    assert [call for call in (GET, WATCH, PATCH) if match(call)] == matched


def fates(plan: Plan, calls: list[Call]) -> list[tuple[Act, ...]]:
    state, found = State(), []
    for call in calls:
        acts, state = decide(plan, state, call)
        found.append(acts)
    return found


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (Rule(Match(), Break()), [1, 2, 3, 4, 5, 6]),
        (Rule(Match(), Break(), nth=4), [4]),
        (Rule(Match(), Break(), every=2), [2, 4, 6]),
        (Rule(Match(), Break(), first=2), [1, 2]),
        (Rule(Match(writes=True), Break(), nth=2), [6]),
    ],
)
def test_a_rule_acts_at_the_requests_that_it_names_among_those_that_it_matches(rule: Rule, hit: list[int]) -> None:
    calls = [GET, GET, PATCH, GET, GET, PATCH]
    assert [number for number, acts in enumerate(fates(Plan([rule]), calls), 1) if acts] == hit


def test_rules_that_are_due_act_together_and_all_of_them_count() -> None:
    plan = Plan([Rule(Match(), Delay(1.0), every=2), Rule(Match(verb="get"), Answer(500), nth=2)])
    assert fates(plan, [GET, GET, GET]) == [(), (Delay(1.0), Answer(500)), ()]


def test_chance_is_near_the_share_and_the_same_for_the_same_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        return [bool(acts) for acts in fates(Plan([Rule(Match(), Answer(429), share=0.3)], seed), [GET] * 2000)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 500 < sum(drawn(1)) < 700


def test_a_plan_goes_to_json_and_back() -> None:
    plan = Plan(EVERYTHING, seed=7)
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json('{"rules": [{"match": {}, "act": {"kind": "cut"}}]}') == Plan([Rule(Match(), Cut())])


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ('{"rules": [{"match": {"verbs": "get"}, "act": {"kind": "cut"}}]}', "rules.0.match.verbs", "Unexpected"),
        ('{"rules": [{"match": {}, "act": {"kind": "cat"}}]}', "rules.0.act", "'drop-events'"),
        ('{"rules": [{"match": {}, "act": {"kind": "delay", "seconds": "x"}}]}', "rules.0.act.delay.seconds", "number"),
        ("[]", None, "object"),
        ("{", None, "Invalid JSON"),
    ],
)
def test_a_plan_that_is_wrong_says_where(text: str, field: str | None, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        Plan.from_json(text)
    assert raised.value.field == field


@pytest.mark.parametrize("when", [{"nth": 0}, {"every": 0}, {"share": 0.0}, {"share": 1.1}, {"nth": 1, "every": 2}])
def test_a_rule_that_cannot_be_is_refused(when: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        Rule(Match(), Break(), **when)


def test_an_answer_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="200 is not"):
        Answer(200)


ONE, TWO, THREE = b"one\n", b"two\n", b"three\n"


@pytest.mark.parametrize(
    ("acts", "seen"),
    [
        ([Cut()], [b"CUT"]),
        ([Cut(after_bytes=2)], [b"on", b"CUT"]),
        ([Cut(after_bytes=4)], [ONE, b"CUT"]),
        ([Cut(after_bytes=6)], [ONE, b"tw", b"CUT"]),
        ([Cut(after_events=1)], [ONE, b"CUT"]),
        ([Cut(after_events=1, after_bytes=1)], [ONE, b"t", b"CUT"]),
        ([Cut(after_events=9)], [ONE, TWO, THREE]),
        ([Freeze(after_events=2)], [ONE, TWO, b"HELD", THREE]),
        ([Freeze(after_bytes=1), Cut(after_events=2)], [b"o", b"HELD", b"ne\n", TWO, b"CUT"]),
        ([DropEvents(nth=2)], [ONE, THREE]),
        ([DropEvents(every=2), Cut(after_events=2)], [ONE, THREE, b"CUT"]),
        ([DropEvents()], []),
        ([Expire()], [GONE]),
        ([Expire(after_events=2)], [ONE, TWO, GONE]),
        ([DelayEvents(0.01)], [ONE, TWO, THREE]),
    ],
)
def test_a_watch_is_shaped_event_by_event(acts: list[Act], seen: list[bytes]) -> None:
    found: list[bytes] = []

    async def held(seconds: float | None) -> None:
        found.append(b"HELD")

    async def events() -> AsyncIterator[bytes]:
        for event in (ONE, TWO, THREE):
            yield event

    async def run() -> None:
        try:
            async for part in ResponseShape(acts, True, held).apply(events()):
                found.append(part)
        except CutError:
            found.append(b"CUT")

    asyncio.run(run())
    assert found == seen


def lease(**spec: str) -> bytes:
    times = ",".join(f'"{name}":"2026-01-01T{time}Z"' for name, time in spec.items())
    return f'{{"kind":"Lease","spec":{{{times}}}}}'.encode()


def test_times_of_leases_are_shown_shifted_and_stored_as_they_were() -> None:
    clock = LeaseClock()
    stored = lease(acquireTime="00:00:00.000001", renewTime="00:00:50.000000")
    shown = lease(acquireTime="00:00:40.000001", renewTime="00:01:30.000000")
    assert clock.show(stored, 40) == shown
    assert clock.show(b'{"kind":"LeaseList","items":[' + stored + b"]}", 40).endswith(shown + b"]}")
    assert clock.show(b'{"type":"ADDED","object":' + stored + b"}", 40).endswith(shown + b"}")
    renewed = lease(acquireTime="00:00:40.000001", renewTime="00:01:31.000000")
    assert clock.store(renewed) == lease(acquireTime="00:00:00.000001", renewTime="00:01:31.000000")
    assert clock.store(b"k8s\0binary") == b"k8s\0binary" == clock.show(b"k8s\0binary", 40)


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
        ("application/vnd.kubernetes.protobuf", "application/json"),
        ("application/json;as=Table;v=v1,application/json", "application/json;as=Table;v=v1,application/json"),
        ("", "application/json"),
    ],
)
def test_what_is_to_be_changed_is_asked_for_as_json(accepted: str, asked: str) -> None:
    assert json_accept(accepted) == asked
