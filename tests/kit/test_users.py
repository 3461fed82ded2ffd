"""The users of a type with passwords, and an operator that may end after any write. Data alone.

The engine here is one whose members each have users of their own, as Redis has: one may accept what others do not.
"""

from __future__ import annotations

import copy
import itertools
import string
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from fleet.kit.credentials.users import Accepted, User, Users, UserSecret, accepted_by_all, make_password, mark_password
from fleet.kit.observe.world import Object, World, make_secret, secret_data
from fleet.kit.step import Act, Apply, Decision, State
from tests.kit.cache_type import NOW, metadata

USERS = (User("default"), User("replica", "members"), User("fleet", "operator"))
TEXTS = {"url": "redis://default:{password:default}@hot.shop.svc:6379", "password": "{password:default}"}
MEMBERS = ("hot-0", "hot-1", "hot-2")
DAY = timedelta(days=1)


class KilledError(Exception):
    """The operator ended right after a write."""


class StaleError(Exception):
    """The API server refuses a write: the object is not the one that was looked at."""


@dataclass
class Life:
    """A cluster with Secrets, members that accept passwords, and clients that read the connection Secret sometimes."""

    users: tuple[User, ...] = USERS
    word: str = ""
    now: datetime = NOW
    secrets: dict[str, Object] = field(default_factory=dict)
    accepts: dict[str, dict[str, set[str]]] = field(default_factory=lambda: {name: {} for name in MEMBERS})
    uses: dict[str, str] = field(default_factory=dict)  # by member, the password that it logs in to others with
    given: dict[str, datetime] = field(default_factory=dict)  # passwords that a client may hold, and since when no more
    writes: int = 0
    kill_after: int = -1
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(10))
    refuses: bool = False  # the API server takes no connection Secret: a webhook is down
    serves: bool = False  # from when all users were made

    def seen(self, secrets: dict[str, Object] | None = None) -> Users:
        objects = [copy.deepcopy(secret) for secret in (self.secrets if secrets is None else secrets).values()]
        return Users("hot", self.users, World.of(objects, None, self.now), metadata, TEXTS, self.word)

    def kept(self, user: str = "default") -> UserSecret:
        return self.seen().secrets()[user]

    # What the operator does

    def reconcile(self) -> Decision | None:
        users = self.seen()
        for manifest in users.missing():
            self.put(manifest)
        if not self.refuses and (texts := users.connection()) is not None:
            self.connect({key: text.encode() for key, text in texts.items()})
        users = self.seen()  # with what was made a moment ago
        decision = users.change(self.accepted(), self.now)
        for step in decision.steps if decision else ():
            if isinstance(step, Apply):
                self.put(step.manifest)
            elif isinstance(step, Act):
                self.act(users, step)
        return decision

    def settle(self, step: timedelta = timedelta(hours=5)) -> None:
        """Until nothing is left to do, with time that passes; an operator that ended is away for three days."""
        quiet = 0
        while quiet < 8:
            try:
                quiet = quiet + 1 if self.reconcile() is None else 0
            except KilledError:
                self.now += 3 * DAY
            self.now += step
        self.serves = True

    def accepted(self) -> dict[str, Accepted]:
        marks = {name: {user: _marks(known) for user, known in users.items()} for name, users in self.accepts.items()}
        used = frozenset(map(mark_password, self.uses.values()))
        return {
            user.name: accepted_by_all(
                [marks[member].get(user.name, frozenset()) for member in MEMBERS],
                used if user.of == "members" else None,
            )
            for user in self.users
        }

    def put(self, manifest: Object) -> None:
        own, found = manifest["metadata"], self.secrets.get(manifest["metadata"]["name"])
        if own["resourceVersion"] != (found["metadata"]["resourceVersion"] if found else "1"):
            raise StaleError(own["name"])
        same = found is not None and found["data"] == manifest["data"]
        version = found["metadata"]["resourceVersion"] if found and same else str(next(self.numbers))
        self.secrets[own["name"]] = {**manifest, "metadata": {"uid": "u", **own, "resourceVersion": version}}
        self.wrote()

    def connect(self, texts: dict[str, bytes]) -> None:
        before = self.secrets.get("hot-connection")
        if before is None or secret_data(before) != texts:
            if before is not None:
                self.given[secret_data(before)["password"].decode()] = self.now
            self.secrets["hot-connection"] = make_secret(metadata("hot-connection"), texts)
            self.wrote()

    def act(self, users: Users, act: Act) -> None:
        assert act.what == "user"
        name, kept = act.arguments["user"], users.secrets()[act.arguments["user"]]
        wanted = {kept.passwords[mark] for mark in act.arguments["accept"]}
        for member in MEMBERS:
            had = self.accepts[member].setdefault(name, set())
            self.accepts[member][name] = set(wanted) if act.arguments["alone"] else had | wanted
            self.wrote()
        if next(user for user in self.users if user.name == name).of == "members":
            for member in MEMBERS:
                self.uses[member] = kept.passwords[act.arguments["use"]]
                self.wrote()

    def wrote(self) -> None:
        self.writes += 1
        self.check()
        if self.writes == self.kill_after:
            raise KilledError

    # What must hold at each moment

    def check(self) -> None:
        if not self.serves:
            return
        connection = self.secrets.get("hot-connection")
        holds = {password for password, since in self.given.items() if since + DAY > self.now}
        holds |= {secret_data(connection)["password"].decode()} if connection else set()
        for member in MEMBERS:
            assert holds <= self.accepts[member]["default"], f"a client is cut off by {member}"
            for used in self.uses.values():
                assert used in self.accepts[member]["replica"], "a member cannot log in to another"
            known = self.kept("fleet").passwords.values()
            assert set(known) & self.accepts[member]["fleet"], "the operator is shut out"


def _marks(passwords: set[str]) -> frozenset[str]:
    return frozenset(map(mark_password, passwords))


def settled(word: str = "") -> Life:
    life = Life(word=word)
    life.settle()
    return life


def rotated(kill_after: int = -1) -> Life:
    """The whole story: users are made, then git says another word."""
    life = Life(kill_after=kill_after)
    life.settle()
    life.word = "2032"
    life.settle()
    return life


UNDISTURBED = rotated()


def test_users_are_made_once_and_all_members_accept_them() -> None:
    life = settled()
    assert set(life.secrets) == {"hot-user-default", "hot-user-replica", "hot-user-fleet", "hot-connection"}
    for user in USERS:
        kept = life.kept(user.name)
        assert kept.phase == "settled"
        assert all(life.accepts[member][user.name] == {kept.password} for member in MEMBERS)
    before, writes = copy.deepcopy(life.secrets), life.writes
    life.settle()
    assert (life.secrets, life.writes) == (before, writes), "nothing is written that is there"


def test_another_word_gives_new_passwords_and_ends_the_old_ones() -> None:
    life = settled()
    old = {user.name: life.kept(user.name).password for user in USERS}
    life.word = "2032"
    life.settle()
    for user in USERS:
        kept = life.kept(user.name)
        assert (kept.phase, kept.word) == ("settled", "2032")
        assert kept.password != old[user.name]
        assert all(life.accepts[member][user.name] == {kept.password} for member in MEMBERS)
    assert set(life.uses.values()) == {life.kept("replica").password}
    assert secret_data(life.secrets["hot-connection"])["password"].decode() == life.kept().password


@pytest.mark.parametrize("write", range(1, UNDISTURBED.writes + 1))
def test_an_operator_that_ends_after_any_write_ends_the_same_and_cuts_nobody_off(write: int) -> None:
    """`Life.check` is asked after each write; the operator is away for three days, which is longer than any overlap."""
    life = rotated(write)
    assert set(life.secrets) == set(UNDISTURBED.secrets)
    for user in USERS:
        kept = life.kept(user.name)
        assert (kept.phase, kept.word) == ("settled", "2032")
        assert all(life.accepts[member][user.name] == {kept.password} for member in MEMBERS)


def test_both_passwords_are_accepted_for_a_day_from_when_clients_are_given_the_new_one() -> None:
    life = settled()
    first = life.kept().password
    life.word = "2032"
    while life.kept().phase != "adding":
        life.reconcile()
    assert secret_data(life.secrets["hot-connection"])["password"].decode() == first, "not before members accept it"
    while not life.kept().until:
        life.reconcile()
    assert life.kept().until == (life.now + DAY).isoformat()
    while life.reconcile() is not None:
        pass
    for member in MEMBERS:
        assert life.accepts[member]["default"] == {first, life.kept().password}
    life.now += DAY - timedelta(seconds=1)
    assert life.reconcile() is None
    life.now += timedelta(seconds=1)
    life.settle()
    assert all(first not in life.accepts[member]["default"] for member in MEMBERS)


def test_an_old_password_does_not_end_before_clients_could_be_given_the_new_one() -> None:
    life = settled()
    first = life.kept().password
    life.word, life.refuses = "2032", True
    life.settle()
    life.now += 9 * DAY
    life.settle()
    assert (life.kept().retired, life.kept().until) == (first, "")
    assert all(first in life.accepts[member]["default"] for member in MEMBERS)
    assert life.kept("fleet").phase == "retiring", "and so it is with others: nobody knows who reads which Secret"
    life.refuses = False
    life.settle()
    assert life.kept().phase == "settled"


def test_a_word_that_changes_meanwhile_waits_for_its_turn() -> None:
    life = settled()
    life.word = "2032"
    while life.kept().phase != "adding":
        life.reconcile()
    life.word = "2033"
    coming = life.kept().coming
    while life.kept().phase != "retiring":
        life.reconcile()
    assert (life.kept().password, life.kept().word) == (coming, "2032")
    life.settle()
    assert (life.kept().word, life.kept().phase) == ("2033", "settled")


def test_a_user_that_does_not_rotate_keeps_its_password() -> None:
    life = Life(users=(User("default"), User("fleet", "operator", rotates=False), User("replica", "members")))
    life.settle()
    before = life.kept("fleet")
    life.word = "2032"
    life.settle()
    assert life.kept("fleet") == before and life.kept().word == "2032"


def test_nothing_is_done_while_not_every_member_could_be_asked() -> None:
    life = settled()
    life.word = "2032"
    assert life.seen().change(None, life.now) is None


def test_a_password_of_members_does_not_end_while_it_is_not_known_which_one_they_use() -> None:
    life = settled()
    life.word = "2032"
    while not life.kept("replica").until:
        life.reconcile()
        life.now += timedelta(minutes=1)
    while life.reconcile() is not None:
        pass
    unknown = {name: Accepted(found.everywhere, found.somewhere) for name, found in life.accepted().items()}
    only_members = Users("hot", USERS[1:2], life.seen().world, metadata, {}, "2032")
    assert only_members.change(unknown, life.now + 9 * DAY) is None
    assert only_members.change(life.accepted(), life.now + 9 * DAY) is not None


def test_a_member_that_comes_back_with_less_is_told_again() -> None:
    life = settled()
    life.accepts["hot-1"], life.serves = {}, False
    decision = life.reconcile()
    assert decision is not None and [type(step) for step in decision.steps] == [Apply, Act]
    life.settle()
    assert life.accepts["hot-1"] == life.accepts["hot-0"]


def test_what_a_person_added_by_hand_stays_until_the_next_rotation() -> None:
    life = settled()
    for member in MEMBERS:
        life.accepts[member]["default"].add("of a person")
    assert life.reconcile() is None
    life.word = "2032"
    life.settle()
    assert life.accepts["hot-0"]["default"] == {life.kept().password}


def test_a_secret_that_is_lost_is_made_anew_and_its_password_stays_accepted() -> None:
    life = settled()
    lost = life.kept().password
    del life.secrets["hot-user-default"]
    life.reconcile()
    life.reconcile()
    assert life.kept().password != lost
    for member in MEMBERS:
        assert life.accepts[member]["default"] == {lost, life.kept().password}


# A cache that is behind


def test_the_secrets_are_asked_for_where_no_cache_shows_them() -> None:
    assert Life().seen().names_of_keys == ("hot-user-default", "hot-user-replica", "hot-user-fleet")


@pytest.mark.parametrize("moment", range(12))
def test_a_cache_that_is_behind_changes_nothing_that_is_kept_or_accepted(moment: int) -> None:
    """As one that lists from a server that is behind: each of the states of before, looked at after the end."""
    life = Life()
    states = []
    for word in ("", "2032"):
        life.word = word
        for _ in range(40):
            life.reconcile()
            life.now += timedelta(hours=3)
            states.append(copy.deepcopy(life.secrets))
    distinct = [state for number, state in enumerate(states) if number == 0 or state != states[number - 1]]
    stale = {name: one for name, one in distinct[min(moment, len(distinct) - 2)].items() if "user" in name}
    before = copy.deepcopy((life.secrets, life.accepts, life.uses))
    for word in ("", "2032", "2033"):
        life.word = word
        users = life.seen(stale)
        for manifest in users.missing():
            with pytest.raises(StaleError):
                life.put(manifest)
        decision = users.change(life.accepted(), life.now)
        for step in decision.steps if decision else ():
            assert isinstance(step, Apply), "what is said to the engine comes after a write that is refused"
            behind = step.manifest["metadata"]["name"]
            if stale[behind] != life.secrets[behind]:
                with pytest.raises(StaleError):
                    life.put(step.manifest)
            break
    assert (life.secrets, life.accepts, life.uses) == before


# What is stored, and what is said


def test_the_secret_has_these_keys_in_each_phase() -> None:
    first = UserSecret("default", "one", word="a")
    begun = first.begun("b", "two")
    moved = begun.moved()
    assert first.write() == {"username": b"default", "password": b"one", "phase": b"settled", "word": b"a"}
    assert begun.write() == {
        "username": b"default",
        "password": b"one",
        "next-password": b"two",
        "phase": b"adding",
        "word": b"a",
        "next-word": b"b",
    }
    assert moved.ends(NOW).write() == {
        "username": b"default",
        "password": b"two",
        "old-password": b"one",
        "phase": b"retiring",
        "word": b"b",
        "until": NOW.isoformat().encode(),
    }
    for kept in (first, begun, moved, moved.ends(NOW), moved.ends(NOW).settled()):
        assert UserSecret.read(kept.write()) == kept


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, "there is no password in it"),
        ({"password": "x", "next-password": "y", "old-password": "z"}, "three passwords"),
        ({"password": "x", "old-password": "z", "until": "s3cret"}, "until when"),
        ({"password": "x", "old-password": "z", "until": "2031-01-01"}, "until when"),
        ({"password": "s3cret" * 1000}, "more than 4096 bytes"),
    ],
)
def test_a_secret_that_a_person_broke_is_said_to_be_and_left_alone(data: dict[str, str], why: str) -> None:
    life = settled()
    encoded = {key: b64encode(text.encode()).decode() for key, text in data.items()}
    life.secrets["hot-user-default"]["data"] = encoded
    decision = life.seen().change(life.accepted(), life.now)
    assert decision is not None and decision.state is State.BLOCKED and not decision.steps
    assert why in decision.message and "hot-user-default" in decision.message and "s3cret" not in decision.message
    assert life.seen().missing() == [] and life.seen().connection() is None, "clients keep what they have"


def test_nothing_secret_is_in_what_is_decided_but_for_the_manifest_of_its_secret() -> None:
    life = settled()
    known = {life.kept(user.name).password for user in USERS}
    said: list[str] = []
    life.word = "2032"
    for _ in range(60):
        decision = life.reconcile()
        known |= {password for user in USERS for password in life.kept(user.name).passwords.values()}
        said.append(repr([life.kept(user.name) for user in USERS]))
        if decision is not None:
            said += [decision.reason, decision.message]
            for step in decision.steps:
                said += [step.reason, step.note, repr(step.arguments) if isinstance(step, Act) else ""]
        life.now += timedelta(hours=3)
    assert len(known) == 6 and len(said) > 60
    assert not [text for text in said for password in known if password in text]


def test_a_password_needs_no_quotes_anywhere() -> None:
    made = {make_password() for _ in range(200)}
    assert len(made) == 200
    for password in made:
        assert len(password) == 32 and password[0] in string.ascii_letters
        assert password.isascii() and password.isalnum() and quote(password, safe="") == password


# What clients are given


def test_texts_for_clients_have_passwords_filled_in() -> None:
    life = settled()
    texts = life.seen().connection()
    password = life.kept().password
    marks = f"default={mark_password(password)}"
    assert texts == {
        "url": f"redis://default:{password}@hot.shop.svc:6379",
        "password": password,
        "password-marks": marks,
    }


def test_texts_are_not_given_before_their_passwords_are_kept() -> None:
    assert Life().seen().connection() is None
    assert Users("hot", (), World({}), metadata, {"host": "hot.shop.svc"}).connection() == {"host": "hot.shop.svc"}


def test_texts_that_name_a_user_that_there_is_not_are_a_mistake() -> None:
    users = Users("hot", USERS, World({}), metadata, {"url": "{password:admin}"})
    with pytest.raises(ValueError, match="no user 'admin': it has default, fleet, replica"):
        users.connection()


@pytest.mark.parametrize("name", ["", "Default", "a_b", "-a", "a" * 64, "a/b"])
def test_a_user_has_a_name_that_a_secret_can_be_called_by(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a user"):
        User(name)


def test_what_all_members_accept_is_told_from_what_some_accept() -> None:
    found = accepted_by_all([frozenset("ab"), frozenset("b")])
    assert (found.everywhere, found.somewhere) == (frozenset("b"), frozenset("ab"))
    nobody: list[Any] = []
    assert accepted_by_all(nobody) == Accepted()
