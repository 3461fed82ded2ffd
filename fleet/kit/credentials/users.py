"""The users of an app: the passwords that the operator makes, the Secrets that keep them, and how they change in use.

Each user has a Secret of its own, `APP-user-NAME`. A password is made once, is kept before the engine hears of it, and
stays in the Secret for as long as it may be in use:

    settled    one password
    adding     git said another word: there is a second one, which nobody is given before every member accepts both
    retiring   it took the place of the first, which is accepted until clients and members have moved

Pure, but for the passwords that it makes. Every write is of the very Secret that was looked at, or of one that nobody
has, and no request to the engine goes out before such a write: a cache that is behind can neither bring a password back
nor make one anew. What the engine accepts is asked in each reconcile, so the operator may end after any write, and goes
on from what it finds. Passwords are named by marks in what is decided, reported and logged.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fleet.kit.observe.world import Data, World, make_secret, secret_data
from fleet.kit.step import Act, Apply, Decision, Object, State, Step, blocked, step
from fleet.objects.resource import NEVER

ALPHABET = string.ascii_letters + string.digits  # needs no quotes in a URL, in a configuration file or in a shell
LENGTH = 32  # characters: 190 bits
RETIRING = datetime.timedelta(days=1)  # from when the new password is in the connection Secret until the old one ends
MOST_BYTES = 4 << 10  # of one password: whoever may write the Secret may write a MiB
GIVEN = "password-marks"  # the entry of the connection Secret that says which passwords are in it
_CONCEALED = "marked "
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PLACEHOLDER = re.compile(r"\{password:([^{}]*)\}")

Phase = Literal["settled", "adding", "retiring"]


def make_password() -> str:
    """Return a new password. It begins with a letter, so that no format takes it for a number or an option."""
    first = secrets.choice(string.ascii_letters)
    return first + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH - 1))


@dataclass(frozen=True, slots=True)
class User:
    """A user that every app of a type has, or that git names."""

    name: str
    of: Literal["clients", "members", "operator"] = "clients"  # who logs in as it
    rotates: bool = True  # whether another word in git makes it a new password
    role: str = ""  # whose members keep it; "" is the first

    def __post_init__(self) -> None:
        """Raise ValueError for a name that no Secret can be called by."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a user: small letters, digits and - in between")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the engine says of one user, by marks of passwords. A password that is none of ours has any other mark."""

    everywhere: frozenset[str] = frozenset()  # that all members accept
    somewhere: frozenset[str] = frozenset()  # that at least one accepts
    used: frozenset[str] | None = None  # with which members log in themselves; None: not known


@dataclass(frozen=True, slots=True)
class UserSecret:
    """What the Secret of a user holds. What is there decides; `phase` in the Secret is for people."""

    user: str
    password: str = field(repr=False)  # the one to log in with
    coming: str = field(default="", repr=False)  # that will take its place
    retired: str = field(default="", repr=False)  # whose place it took
    word: str = ""  # what git called this generation
    coming_word: str = ""
    until: str = ""  # when the retired one may be forgotten; "" until clients are given the one that took its place

    @classmethod
    def read(cls, held: Mapping[str, bytes]) -> UserSecret:
        """Return what is kept. Raise ValueError for a Secret without a password, and for more than one can be."""
        if sum(map(len, held.values())) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes are no password")
        texts = {key: value.decode() for key, value in held.items()}
        if not texts.get("password"):
            raise ValueError("there is no password in it")
        keys = ("username", "password", "next-password", "old-password", "word", "next-word", "until")
        made = cls(*(texts.get(key, "") for key in keys))
        if made.coming and made.retired:
            raise ValueError("there are three passwords in it")
        if made.until and not _is_moment(made.until):
            raise ValueError("it does not say in a form that is known until when the old password is accepted")
        return made

    def write(self) -> Data:
        """Return what the Secret is to hold. It is stored, and pods refer to `username` and `password`: both stay."""
        texts = {
            "username": self.user,
            "password": self.password,
            "next-password": self.coming,
            "old-password": self.retired,
            "phase": self.phase,
            "word": self.word,
            "next-word": self.coming_word,
            "until": self.until,
        }
        return {key: text.encode() for key, text in texts.items() if text}

    @property
    def phase(self) -> Phase:
        if self.coming:
            return "adding"
        return "retiring" if self.retired else "settled"

    @property
    def mark(self) -> str:
        """Return the mark of the password to log in with."""
        return mark_password(self.password)

    @property
    def marks(self) -> frozenset[str]:
        """Return those of all passwords that must be accepted now."""
        return frozenset(self.passwords)

    @property
    def passwords(self) -> dict[str, str]:
        """Return all that must be accepted now, by mark, the one to log in with first."""
        known = (self.password, self.coming, self.retired)
        return {mark_password(password): password for password in known if password}

    def begun(self, word: str, password: str) -> UserSecret:
        """Return it with a second password, which nobody is given yet."""
        return replace(self, coming=password, coming_word=word)

    def moved(self) -> UserSecret:
        """Return it with the second in the place of the first, which is still accepted."""
        return UserSecret(self.user, self.coming, "", self.password, self.coming_word)

    def ends(self, until: datetime.datetime) -> UserSecret:
        """Return it with the moment until which the first is accepted."""
        return replace(self, until=until.isoformat(timespec="seconds"))

    def settled(self) -> UserSecret:
        """Return it without the one that nobody uses any more."""
        return replace(self, retired="", until="")


@dataclass(frozen=True, slots=True)
class Users:
    """The users of one app among what the cluster holds of it."""

    app: str  # its name
    users: Sequence[User]
    world: World
    metadata: Callable[[str], Mapping[str, Any]]  # of an object of the app, by name
    texts: Mapping[str, str] = field(default_factory=dict)  # for clients, with `{password:NAME}` for passwords
    word: str = ""  # git's: another one gives all users new passwords
    retiring: datetime.timedelta = RETIRING
    make_password: Callable[[], str] = make_password

    @property
    def names_of_keys(self) -> tuple[str, ...]:
        """Return the Secrets that must not be made anew because a cache does not show them: the reconciler asks for
        them."""
        return tuple(secret_name(self.app, user.name) for user in self.users)

    def missing(self) -> list[Object]:
        """Return Secrets with new passwords for users that have none, to be created and never to replace another.

        Those that are there are not among them: written again from a cache that is behind, a password would be lost.
        A Secret that a person deleted is made anew, too. The engine then gets its password beside those that it has.
        """
        absent = [user for user in self.users if self._secret(user) is None]
        new = [UserSecret(user.name, self.make_password(), word=self.word) for user in absent]
        return [self._write(kept, user) for kept, user in zip(new, absent, strict=True)]

    def secrets(self) -> dict[str, UserSecret]:
        """Return what is kept of users, by name, without those whose Secret is not there or cannot be read."""
        kept = {user.name: self._read(user) for user in self.users}
        return {name: secret for name, secret in kept.items() if isinstance(secret, UserSecret)}

    def connection(self) -> dict[str, str] | None:
        """Return the texts for clients, with passwords filled in, for the connection Secret.

        None while one of the passwords is not known to be kept: clients keep what they have. Raise ValueError for a
        user that the app does not have.
        """
        kept, names = self.secrets(), {user.name for user in self.users}
        asked = {name for text in self.texts.values() for name in _PLACEHOLDER.findall(text)}
        if unknown := asked - names:
            raise ValueError(f"the app has no user {sorted(unknown)[0]!r}: it has {', '.join(sorted(names)) or 'none'}")
        if asked - set(kept):
            return None
        texts = {
            key: _PLACEHOLDER.sub(lambda match: kept[match[1]].password, text)  # not what a password contains
            for key, text in self.texts.items()
        }
        marks = " ".join(f"{name}={kept[name].mark}" for name in sorted(asked))
        return {**texts, GIVEN: marks} if marks else texts

    def change(self, accepted: Mapping[str, Accepted] | None, now: datetime.datetime) -> Decision | None:
        """Return the next step of the first user that needs one; None if none does.

        `accepted` is what the engine says, by user; None: not every member could be asked, and nothing is done then. A
        password leaves this module in the manifest of its Secret alone: an Act names users and marks, and the engine's
        half takes the passwords from `secrets`.
        """
        for user in self.users:
            kept = self._read(user)
            if kept is None:
                continue  # it is about to be made
            if isinstance(kept, str):
                name = secret_name(self.app, user.name)
                return blocked(
                    "PasswordUnreadable",
                    f"{name}: {kept}. Put the Secret back; or delete it, and the user gets a further password",
                )
            if accepted is None:
                continue
            found = accepted.get(user.name, Accepted())
            if (decision := self._step(user, kept, found, now)) is not None:
                return decision
        return None

    def _step(self, user: User, kept: UserSecret, accepted: Accepted, now: datetime.datetime) -> Decision | None:
        over = bool(kept.retired and kept.until) and datetime.datetime.fromisoformat(kept.until) <= now
        wanted = frozenset({kept.mark}) if over else kept.marks
        moves = user.of == "members" and accepted.used is not None and accepted.used != {kept.mark}
        if not wanted <= accepted.everywhere or moves:
            return self._told(user, kept, kept.marks, alone=False)
        if kept.phase == "adding":
            note = f"all members accept the new password of {user.name}: clients are given it"
            return _decided(note, Apply(self._write(kept.moved(), user), "PasswordMoved", note))
        if kept.phase == "retiring":
            if not kept.until:
                return self._ends(user, kept, now) if self._is_given() else None
            if not over or (user.of == "members" and accepted.used is None):
                return None
            if accepted.somewhere != wanted:
                return self._told(user, kept, wanted, alone=True)
            note = f"the old password of {user.name} is accepted no more"
            return _decided(note, Apply(self._write(kept.settled(), user), "PasswordRetired", note))
        if user.rotates and kept.word != self.word:
            after = kept.begun(self.word, self.make_password())
            note = f"{user.name} gets a second password"
            return _decided(note, Apply(self._write(after, user), "PasswordMade", note))
        return None

    def _is_given(self) -> bool:
        """Tell whether clients find in the connection Secret what is kept: a client reads it at any time until then."""
        given, held = self.connection(), self.world.secret(f"{self.app}-connection")
        return given is not None and held.get(GIVEN, b"").decode() == given.get(GIVEN, "")

    def _ends(self, user: User, kept: UserSecret, now: datetime.datetime) -> Decision:
        until = now + self.retiring
        note = f"the old password of {user.name} is accepted until {until:%Y-%m-%d %H:%M} UTC"
        return _decided(note, Apply(self._write(kept.ends(until), user)))

    def _told(self, user: User, kept: UserSecret, marks: frozenset[str], *, alone: bool) -> Decision:
        """Have members accept those passwords, beside what they have or `alone`, and log in with the first.

        The Secret is written as it is first: the API server refuses that if the Secret is no longer the one that was
        looked at, and the engine hears nothing of what is decided by an old one.
        """
        note = f"the old password of {user.name} ends" if alone else f"members learn the password of {user.name}"
        arguments = {"user": user.name, "accept": tuple(sorted(marks)), "alone": alone, "use": kept.mark}
        return _decided(note, Apply(self._write(kept, user)), Act("user", arguments))

    def _secret(self, user: User) -> Object | None:
        return self.world.get("Secret", secret_name(self.app, user.name))

    def _read(self, user: User) -> UserSecret | str | None:
        """Return what is kept; why it cannot be read; None if it is not there."""
        if (secret := self._secret(user)) is None:
            return None
        try:
            return replace(UserSecret.read(secret_data(secret)), user=user.name)
        except ValueError as problem:
            return str(problem) if not isinstance(problem, UnicodeDecodeError) else "it is not text"

    def _write(self, kept: UserSecret, user: User) -> Object:
        """Return the Secret, bound to the very one that was looked at, or to none."""
        metadata = dict(self.metadata(secret_name(self.app, user.name)))
        if (found := self._secret(user)) is None:
            metadata["resourceVersion"] = NEVER
        else:
            metadata |= {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
        return make_secret(metadata, kept.write())


def secret_name(app: str, user: str) -> str:
    return f"{app}-user-{user}"


def mark_password(password: str) -> str:
    """Return by what a password is named where it must not be read: it tells two apart, and nothing else.

    In a replay, where nobody has the password, its mark stands for it (`conceal_password`).
    """
    if password.startswith(_CONCEALED):
        return password.removeprefix(_CONCEALED)
    return hashlib.sha256(f"fleet password {password}".encode()).hexdigest()[:10]


def conceal_password(password: str) -> str:
    """Return what stands for a password in a record: no password that is made has a blank in it."""
    return f"{_CONCEALED}{mark_password(password)}"


def accepted_by_all(members: Iterable[frozenset[str]], used: frozenset[str] | None = None) -> Accepted:
    """Return what an engine says whose members each have users of their own, by what each of them accepts."""
    found = list(members)
    everywhere = frozenset.intersection(*found) if found else frozenset()
    return Accepted(everywhere, frozenset[str]().union(*found), used)


def _is_moment(text: str) -> bool:
    try:
        return datetime.datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _decided(note: str, *steps: Step) -> Decision:
    return step(State.PROGRESSING, "Credentials", note, *steps)
