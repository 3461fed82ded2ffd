"""Backups in a bucket of a real S3 server: good ones are found again, and none that is not whole is called good."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import AccessError, ConfigurationError, FleetError, NotFoundError, PolicyError, ResourceError
from fleet.kit.backup import content
from fleet.kit.backup.bucket import BucketShelf, open_shelf
from fleet.kit.backup.directory import Directory
from fleet.kit.backup.encryption import BackupKey, decrypt, encrypt, encrypted_size
from fleet.kit.backup.plan import BackupPlan, Facts
from fleet.kit.backup.records import Record, part_of, read
from fleet.kit.backup.retention import keep
from fleet.kit.backup.shelf import Shelf, pick
from fleet.s3.address import BucketAddress
from fleet.s3.bucket import MIB, BucketClient
from fleet.s3.transport import Transport
from fleet.testing import S3
from tests.kit.backup.types import POSTGRES, Postgres, write_base_backup
from tests.s3.store_proxy import Fault, Seen, StoreProxy

NOW = datetime(2031, 5, 1, 3, 0, tzinfo=UTC)
KEY = BackupKey(bytes(range(32)), "the Secret backup-key")
CONTENT = b"begin" + secrets.token_bytes(6 * MIB) + b"end"  # two parts


def verify_file(file: Path) -> Facts:
    """A dump that begins and ends as it must."""
    with file.open("rb") as opened:
        beginning = opened.read(5)
    if beginning != b"begin" or not file.read_bytes().endswith(b"end"):
        raise ResourceError(f"{file.name} is not whole")
    size, digest = content.file_digest(file)
    return Facts(size, f"sha256:{digest}", "7", "17")


FILES = BackupPlan[Postgres](
    kind="Postgres",
    role=POSTGRES.role,
    save=POSTGRES.save,
    suffix="dump",
    verify="tests.kit.backup.test_bucket:verify_file",
    put_back=lambda _app, _about: POSTGRES.save(_app, ""),
)


def shelf(s3: S3, scratch: Path, plan: Any = FILES, url: str = "", keys: tuple[BackupKey, ...] = ()) -> BucketShelf:
    address = BucketAddress(s3.bucket.name, url or s3.url, s3.region)
    transport = Transport(str(address), s3.key, s3.region, pause=lambda _seconds: None, timeout=10)
    scratch.mkdir(exist_ok=True)
    return BucketShelf(plan, BucketClient(address, transport), "folder/", scratch, keys)


def made(
    where: Shelf, scratch: Path, *, body: bytes = b"begin and end", count: int = 9, job: str = "job-1", **options: Any
) -> Record:
    part = scratch / part_of("db", job)
    if where.plan.how == "tree":
        content.delete(part)
        write_base_backup(part, "rows")
    else:
        part.write_bytes(body)
    whose = {"app": "db", "namespace": "ns", "identity": "7", "version": "17.2", "place": "s3://b/folder", **options}
    return keep(where, part, count=count, job=job, **whose)


def picked(where: Shelf, snapshot: str = "latest", **options: Any) -> Record:
    return pick(where, snapshot, **{"app": "copy", "namespace": "ns", "version": "17.2", **options})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.s3.bucket.SMALLEST_PART", 5 * MIB)


@pytest.fixture
def proxy(s3: S3) -> Iterator[StoreProxy]:
    with StoreProxy(s3.url) as running:
        yield running


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["open", "encrypted"])
@pytest.mark.parametrize("plan", [FILES, POSTGRES], ids=["file", "tree"])
def test_what_is_kept_is_found_and_comes_back_as_it_was(s3: S3, tmp_path: Path, plan: Any, keys: Any) -> None:
    writer = shelf(s3, tmp_path / "w", plan, keys=keys)
    writer.prepare("db", "job-1")
    record = made(writer, tmp_path / "w", body=CONTENT)
    reader = shelf(s3, tmp_path / "r", plan, keys=keys)
    assert reader.complete() == [record] and picked(reader) == record
    assert read(record.write()) == record and record.encryption_key == (KEY.id if keys else "")
    assert plan.verified(tmp_path / "r" / record.name).checksum == record.checksum
    assert s3.bucket.uploads() == [] and len(s3.bucket.keys("folder/")) == 2
    if plan is FILES:
        assert (s3.bucket.get(f"folder/{record.name}") == CONTENT) is not bool(keys)
    else:
        assert (tmp_path / "r" / record.name / "pg_notify").is_dir()


def test_old_and_superfluous_ones_go_in_every_kind_of_place_and_others_stay(s3: S3, tmp_path: Path) -> None:
    for where in (shelf(s3, tmp_path / "scratch"), Directory(FILES, tmp_path / "directory")):
        (tmp_path / "directory").mkdir(exist_ok=True)
        part = where.scratch if isinstance(where, BucketShelf) else where.path
        other = made(where, part, app="db-two", now=NOW - timedelta(days=99))
        own = [made(where, part, now=NOW + timedelta(days=day), count=3) for day in range(5)]
        assert where.complete() == [other, *own[-3:]]
        last = made(where, part, now=NOW + timedelta(days=6), count=9, seconds=86_400 * 3)
        assert where.complete() == [other, *own[-2:], last], "the others are older than three days"
        alone = made(where, part, now=NOW + timedelta(days=90), count=9, seconds=60)
        assert where.complete() == [other, alone], "the newest stays, however old it gets"


def test_two_of_the_same_second_are_two_whoever_made_them(s3: S3, tmp_path: Path) -> None:
    where = shelf(s3, tmp_path / "scratch")
    records = [made(where, tmp_path / "scratch", now=NOW, job=job) for job in ("east.job", "west.job", "east.job")]
    assert len({record.name for record in records}) == len(where.complete()) == 3


def requests_of_a_backup(s3: S3, proxy: StoreProxy, scratch: Path) -> int:
    where = shelf(s3, scratch, url=proxy.url)
    where.prepare("db", "job-1")
    made(where, scratch, body=CONTENT)
    return len(proxy.seen)


@pytest.mark.parametrize("how", ["gone", "lost", "full", "forbidden", "lied"])
def test_a_store_that_fails_at_any_request_has_no_backup_or_a_good_one(
    s3: S3, proxy: StoreProxy, tmp_path: Path, how: str
) -> None:
    """From some request on: not reached, answers lost, full, forbidden; or all is well, and nothing was done."""
    most = requests_of_a_backup(s3, proxy, tmp_path / "scratch")
    assert most > 12
    fault = {
        "gone": Fault(500, hang_up=True),
        "lost": Fault(500, pass_on=True, hang_up=True),
        "full": Fault(507, "InsufficientStorage"),
        "forbidden": Fault(403, "AccessDenied"),
        "lied": Fault(200, headers={"ETag": '"1"'}),
    }[how]
    reader = shelf(s3, tmp_path / "reader")
    for number in range(1, most + 1):
        for record in reader.complete():
            reader.remove(record)
        proxy.seen.clear()

        def decide(seen: Seen, number: int = number) -> Fault | None:
            reads = seen.method == "GET" and how in ("full", "lied")
            return None if reads or len(proxy.seen) < number else fault

        proxy.decide = decide
        where = shelf(s3, tmp_path / "scratch", url=proxy.url)
        good: Record | None = None
        try:
            where.prepare("db", "job-1")
            good = made(where, tmp_path / "scratch", body=CONTENT)
        except FleetError:
            pass
        proxy.decide = lambda _seen: None
        there = reader.complete()
        if good is not None:
            assert there == [good], f"request {number}"
        for record in there:  # the record of a Job that was cut off right after it was written may be there
            assert picked(reader, record.name) == record, f"request {number}"
        where.prepare("db", "job-1")
        assert s3.bucket.uploads() == [], f"request {number}: the next try of the Job gives up what this one began"


@pytest.mark.parametrize("lie", ["flip", "swallow part", "swallow all"])
def test_a_store_that_lies_about_success_is_found_out(s3: S3, proxy: StoreProxy, tmp_path: Path, lie: str) -> None:
    def decide(seen: Seen) -> Fault | None:
        if lie == "flip":
            return Fault(flip=True) if seen.method == "GET" and seen.path.endswith(".dump") else None
        if lie == "swallow part":
            return Fault(200, headers={"ETag": '"1"'}) if "partNumber=2" in seen.query else None
        return Fault(200, headers={"ETag": '"1"'}) if seen.path.endswith(".dump") and seen.method == "PUT" else None

    where = shelf(s3, tmp_path / "scratch", url=proxy.url)
    proxy.decide = decide
    body = CONTENT if lie == "swallow part" else b"begin and end"
    with pytest.raises(ResourceError, match=r"is not what was sent|does not have it|cannot be completed"):
        made(where, tmp_path / "scratch", body=body)
    proxy.decide = lambda _seen: None
    assert where.complete() == [] and s3.bucket.keys() == [] and s3.bucket.uploads() == []


def test_an_object_that_changed_later_is_not_restored(s3: S3, tmp_path: Path) -> None:
    where = shelf(s3, tmp_path / "scratch")
    record = made(where, tmp_path / "scratch", body=b"begin it and end")
    s3.bucket.put(f"folder/{record.name}", b"begin no and end")
    assert where.complete() == [record], "its size is the same"
    with pytest.raises(ResourceError, match="is not what was written"):
        picked(where)
    s3.bucket.put(f"folder/{record.name}", b"begin")
    assert where.complete() == []


def test_what_is_not_a_backup_is_neither_counted_nor_touched(s3: S3, tmp_path: Path) -> None:
    where = shelf(s3, tmp_path / "scratch")
    others = [
        "folder/notes.json",
        "folder/sub/db-1.json",
        "other",
        "folder/db-20310101T000000Z-17.2.dump",
        "folder/x.dump",
    ]
    for name in others:
        s3.bucket.put(name, b"begin mine end")
    record = made(where, tmp_path / "scratch", count=1)
    assert where.complete() == [record] and set(others) < set(s3.bucket.keys())
    assert picked(where, "x.dump").app == "", "one that a person put there can be named"
    with pytest.raises(PolicyError, match="does not say whose backup it is"):
        picked(where, "x.dump", origins=(), recorded=True)
    with pytest.raises(NotFoundError, match=r"there is no backup y\.dump"):
        picked(where, "y.dump")


def test_uploads_of_others_that_are_under_way_are_left_alone(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = shelf(s3, tmp_path / "scratch")
    now = datetime.now(UTC)
    mine = f"folder/db-{now:%Y%m%dT%H%M%SZ}-17.2-"
    names = [mine + "0000aaaa.dump", "folder/db-two-x.dump", f"folder/db-two-{now:%Y%m%dT%H%M%SZ}-1-0000aaaa.dump"]
    for name in names:
        where.client.transport.send("POST", where.client.address.url(name, {"uploads": ""}))
    where.prepare("db", "job-9")
    assert sorted(s3.bucket.uploads()) == sorted(names), "they are young, or of another app"
    monkeypatch.setattr("fleet.kit.backup.bucket.ABANDONED_SECONDS", -60)
    where.prepare("db", "job-9")
    assert sorted(s3.bucket.uploads()) == sorted(names[1:]), "nobody is at that one any more"


def test_a_wrong_key_is_refused_by_its_name_and_the_one_before_still_opens(s3: S3, tmp_path: Path) -> None:
    record = made(shelf(s3, tmp_path / "w", keys=(KEY,)), tmp_path / "w")
    other = BackupKey(bytes(32), "the Secret other")
    with pytest.raises(AccessError, match=f"with the key {KEY.id}, and the Secret other has {other.id}"):
        picked(shelf(s3, tmp_path / "r", keys=(other,)))
    with pytest.raises(AccessError, match=f"with the key {KEY.id}, and no key is given"):
        picked(shelf(s3, tmp_path / "r"))
    assert picked(shelf(s3, tmp_path / "r", keys=(other, KEY))) == record
    assert KEY.key.hex() not in record.write() and "bytes" not in repr(KEY)


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_what_is_encrypted_is_opened_in_whatever_pieces_it_comes(size: int) -> None:
    clear = secrets.token_bytes(size)
    sent = b"".join(encrypt((clear[n : n + 70_000] for n in range(0, size, 70_000)), KEY))
    assert len(sent) == encrypted_size(size)
    for step in (len(sent), 65_537):
        pieces = (sent[n : n + step] for n in range(0, len(sent), step))
        assert b"".join(decrypt(pieces, [KEY], "it")) == clear


@pytest.mark.parametrize("damage", ["cut to a piece", "cut", "flipped", "exchanged", "head", "longer"])
def test_what_was_changed_after_encryption_is_never_taken_for_whole(damage: str) -> None:
    sent = bytearray(b"".join(encrypt([bytes(3 * MIB)], KEY)))
    head, piece = 48, MIB + 16
    if damage == "cut to a piece":
        del sent[head + piece :]
    elif damage == "cut":
        del sent[-1:]
    elif damage == "flipped":
        sent[head + piece + 5] ^= 1
    elif damage == "exchanged":
        first = sent[head : head + piece]
        sent[head : head + piece] = sent[head + piece : head + 2 * piece]
        sent[head + piece : head + 2 * piece] = first
    elif damage == "head":
        sent[20] ^= 1
    else:
        sent += b"x"
    with pytest.raises(ResourceError, match="was changed since it was encrypted, or is cut off"):
        b"".join(decrypt([bytes(sent)], [KEY], "it"))


@pytest.mark.parametrize("text", ["", "short", "AAAA", "zz" * 32])
def test_a_key_that_is_none_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ConfigurationError, match="the Secret k has no key for backups") as refused:
        BackupKey.read(text, "the Secret k")
    assert "openssl rand -base64 32" in str(refused.value.hint)


def test_a_secret_without_keys_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the Secret s3 has no AWS_SECRET_ACCESS_KEY"):
        open_shelf(FILES, tmp_path, {"AWS_ACCESS_KEY_ID": "A"}, bucket="b/c", secret="s3")
    good = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B\n"}
    opened = open_shelf(FILES, tmp_path, good, bucket="b/c", secret="s3", region="eu-1")
    assert (opened.folder, opened.client.address.base) == ("c/", "https://b.s3.eu-1.amazonaws.com")
    with pytest.raises(ConfigurationError, match="the Secret k has no key"):
        open_shelf(FILES, tmp_path, good, bucket="b", secret="s3", encryption="k")
