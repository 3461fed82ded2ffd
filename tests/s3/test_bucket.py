"""The client of buckets against a real S3 server, and against what networks and bad stores do in between."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from fleet.errors import AccessError, NotFoundError, ResourceError
from fleet.s3.address import BucketAddress
from fleet.s3.bucket import MIB, BucketClient, MissingObjectError, part_size
from fleet.s3.signature import Key, sign_request
from fleet.s3.transport import LONGEST_PAUSE, TRIES, Transport, pause_after
from fleet.testing import S3
from tests.s3.store_proxy import Fault, Seen, StoreProxy

PART = 5 * MIB


class Pauses(list[float]):
    """What a client waited, without waiting."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(s3: S3, url: str = "", key: Key | None = None, **options: object) -> BucketClient:
    address = BucketAddress(s3.bucket.name, url or s3.url, s3.region)
    transport = Transport(str(address), key or s3.key, s3.region, pause=Pauses(), timeout=5, **options)  # type: ignore[arg-type]
    return BucketClient(address, transport)


def pauses(bucket: BucketClient) -> list[float]:
    found = bucket.transport.pause
    assert isinstance(found, Pauses)
    return found


@pytest.fixture
def proxy(s3: S3) -> Iterator[StoreProxy]:
    with StoreProxy(s3.url) as running:
        yield running


def pieces(content: bytes, size: int = 700_001) -> Iterator[bytes]:
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


def test_an_object_is_written_read_listed_and_deleted(s3: S3) -> None:
    bucket = client(s3)
    bucket.put("a folder/ünï+code?", b"content")
    assert bucket.get("a folder/ünï+code?") == b"content"
    assert [(one.name, one.size) for one in bucket.objects("a f")] == [("a folder/ünï+code?", 7)]
    bucket.delete("a folder/ünï+code?")
    bucket.delete("a folder/ünï+code?")
    assert bucket.get("a folder/ünï+code?") is None and list(bucket.objects()) == []
    with pytest.raises(MissingObjectError):
        list(bucket.read("a folder/ünï+code?"))


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 3 * PART + 17])
def test_an_object_of_any_size_is_uploaded_whole(s3: S3, size: int) -> None:
    content, bucket = secrets.token_bytes(size), client(s3)
    bucket.upload("large", pieces(content), PART)
    assert hashlib.sha256(b"".join(bucket.read("large"))).digest() == hashlib.sha256(content).digest()
    assert s3.bucket.uploads() == []


def test_parts_grow_with_the_object_and_are_few_enough() -> None:
    assert part_size(0) == part_size(60 << 30) == 8 * MIB
    for size in (1 << 40, 5 << 40):
        assert size / part_size(size) < 9_001 and part_size(size) % MIB == 0


def test_a_source_that_fails_leaves_no_upload(s3: S3) -> None:
    def source() -> Iterator[bytes]:
        yield bytes(2 * PART)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client(s3).upload("large", source(), PART)
    assert s3.bucket.uploads() == [] and s3.bucket.keys() == []


@pytest.mark.parametrize(
    ("wrong", "code"), [("secret", "SignatureDoesNotMatch"), ("access key", "InvalidAccessKeyId"), ("bucket", "NoSuch")]
)
def test_what_the_store_refuses_is_said_at_once_and_in_its_words(s3: S3, wrong: str, code: str) -> None:
    key = {"secret": Key(s3.key.access, "wrong"), "access key": Key("NOBODY", "wrong")}.get(wrong, s3.key)
    bucket = client(s3, key=key)
    if wrong == "bucket":
        bucket = BucketClient(BucketAddress("not-there", s3.url, s3.region), bucket.transport)
    with pytest.raises((AccessError, NotFoundError), match=code) as refused:
        bucket.put("a", b"b")
    assert refused.value.hint and pauses(bucket) == []
    assert s3.key.secret not in str(refused.value)


@pytest.mark.parametrize(
    "fault", [Fault(500), Fault(503, "SlowDown"), Fault(429), Fault(hang_up=True), Fault(400, "RequestTimeout")]
)
def test_what_passes_is_tried_again_with_longer_pauses(s3: S3, proxy: StoreProxy, fault: Fault) -> None:
    bucket = client(s3, proxy.url)
    proxy.decide = lambda seen: fault if seen.number <= 3 else None
    bucket.put("a", b"b")
    assert s3.bucket.get("a") == b"b" and len(pauses(bucket)) == 3
    assert pauses(bucket) == sorted(pauses(bucket)) or max(pauses(bucket)) <= LONGEST_PAUSE


def test_what_does_not_pass_ends_with_the_last_reason(s3: S3, proxy: StoreProxy) -> None:
    bucket = client(s3, proxy.url)
    proxy.decide = lambda _seen: Fault(503, "SlowDown")
    with pytest.raises(ResourceError, match=rf"failed {TRIES} times: 503 SlowDown"):
        bucket.put("a", b"b")
    assert proxy.count("PUT") == TRIES
    assert all(pause_after(number) <= LONGEST_PAUSE for number in range(1, 50))


def test_a_store_that_is_full_is_not_asked_again(s3: S3, proxy: StoreProxy) -> None:
    proxy.decide = lambda seen: Fault(507, "InsufficientStorage") if "partNumber" in seen.query else None
    with pytest.raises(ResourceError, match="the store is full"):
        client(s3, proxy.url).upload("large", pieces(bytes(2 * PART)), PART)
    assert s3.bucket.uploads() == [], "the upload was aborted"


def test_a_store_that_is_slow_is_waited_for_and_one_that_is_silent_is_not(s3: S3, proxy: StoreProxy) -> None:
    bucket = client(s3, proxy.url)
    proxy.decide = lambda _seen: Fault(wait=0.5)
    bucket.put("a", b"b")
    bucket.transport.timeout = 0.2
    quick = client(s3, proxy.url)
    quick.transport.timeout = 0.2
    with pytest.raises(ResourceError, match="timed out"):
        quick.put("b", b"b")


def test_a_read_goes_on_where_it_was_cut_off(s3: S3, proxy: StoreProxy) -> None:
    content, bucket = secrets.token_bytes(3_000_000), client(s3, proxy.url)
    bucket.put("a", content)
    proxy.decide = lambda seen: Fault(cut=900_000) if seen.method == "GET" and seen.number <= 3 else None
    assert b"".join(bucket.read("a")) == content
    ranges = [seen.headers.get("Range") for seen in proxy.seen if seen.method == "GET"]
    assert ranges == [None, "bytes=900000-", "bytes=1800000-", "bytes=2700000-"]


def test_a_read_does_not_go_on_in_another_object(s3: S3, proxy: StoreProxy) -> None:
    bucket = client(s3, proxy.url)
    bucket.put("a", bytes(3_000_000))

    def replaced(seen: Seen) -> Fault | None:
        if seen.method == "GET" and seen.number == 2:
            s3.bucket.put("a", bytes(2_999_999) + b"x")
        return Fault(cut=1_000_000) if seen.method == "GET" and seen.number == 1 else None

    proxy.decide = replaced
    with pytest.raises(ResourceError):
        list(bucket.read("a"))


@pytest.mark.parametrize("hours", [-3, 5])
def test_a_clock_that_is_wrong_is_set_by_the_stores(s3: S3, hours: int) -> None:
    wrong = client(s3, clock=lambda: datetime.now(UTC) + timedelta(hours=hours))
    wrong.put("a", b"b")
    wrong.put("c", b"d")
    assert s3.bucket.keys() == ["a", "c"]
    assert abs(wrong.now() - datetime.now(UTC)) < timedelta(minutes=1) and pauses(wrong) == []


def test_a_store_that_contradicts_itself_about_the_time_is_refused(s3: S3, proxy: StoreProxy) -> None:
    tomorrow = {"Date": format_datetime(datetime.now(UTC) + timedelta(days=1))}
    proxy.decide = lambda _seen: Fault(403, "RequestTimeTooSkewed", tomorrow)
    with pytest.raises(AccessError, match="the clocks of this node and of the store differ"):
        client(s3, proxy.url).put("a", b"b")
    assert proxy.count("PUT") == 2


def test_the_answer_to_a_completed_upload_may_be_lost(s3: S3, proxy: StoreProxy) -> None:
    def lose(seen: Seen) -> Fault | None:
        completes = seen.method == "POST" and seen.query.startswith("uploadId") and seen.number == 1
        return Fault(200, pass_on=True, hang_up=True) if completes else None

    proxy.decide = lose
    client(s3, proxy.url).upload("large", pieces(bytes(2 * PART)), PART)
    assert len(s3.bucket.get("large")) == 2 * PART and s3.bucket.uploads() == []


def test_a_store_with_its_own_authority_is_trusted_only_by_it(s3: S3, tmp_path: Path) -> None:
    with StoreProxy(s3.url, tls=tmp_path) as proxy:
        client(s3, proxy.url, authority=proxy.authority).put("a", b"b")
        assert s3.bucket.get("a") == b"b"
        stranger = client(s3, proxy.url)
        with pytest.raises(AccessError, match="certificate is not trusted"):
            stranger.put("a", b"c")
        assert pauses(stranger) == []


def test_a_redirect_to_another_region_names_it(s3: S3, proxy: StoreProxy) -> None:
    proxy.decide = lambda _seen: Fault(301, "PermanentRedirect", {"x-amz-bucket-region": "eu-central-1"})
    with pytest.raises(AccessError, match="in another region") as refused:
        client(s3, proxy.url).put("a", b"b")
    assert refused.value.hint == "region='eu-central-1'"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (BucketAddress("b"), "https://b.s3.us-east-1.amazonaws.com/x/y%20z"),
        (BucketAddress("b.c", region="eu-1"), "https://s3.eu-1.amazonaws.com/b.c/x/y%20z"),
        (BucketAddress("b", "https://s3.test:9000"), "https://s3.test:9000/b/x/y%20z"),
        (BucketAddress("b", "https://s3.test:9000", style="host"), "https://b.s3.test:9000/x/y%20z"),
        (BucketAddress("b", style="path"), "https://s3.us-east-1.amazonaws.com/b/x/y%20z"),
    ],
)
def test_a_bucket_is_named_where_its_store_wants_it(address: BucketAddress, url: str) -> None:
    assert address.url("x/y z") == url


def test_a_token_of_a_session_is_signed_too() -> None:
    key = Key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "token")
    headers = sign_request("GET", "https://b.test/", key, region="r", moment=datetime(2031, 1, 1, tzinfo=UTC))
    assert headers["x-amz-security-token"] == "token"
    assert "x-amz-security-token" in headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert "wJalr" not in repr(key) and "'token'" not in repr(key)
