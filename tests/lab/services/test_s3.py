"""The S3 server: objects come back as they were sent, and who has no right is refused."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fleet.testing import S3, S3Error
from fleet.testing.s3 import Key, sign_request

MIB = 1 << 20


def test_an_object_is_put_got_listed_and_deleted(s3: S3) -> None:
    content = secrets.token_bytes(100_000)
    s3.bucket.put("orders/2026-01-01 03:00/snapshot.db", content)
    s3.bucket.put("other", b"")
    assert s3.bucket.get("orders/2026-01-01 03:00/snapshot.db") == content
    assert s3.bucket.get("other") == b""
    assert s3.bucket.keys() == ["orders/2026-01-01 03:00/snapshot.db", "other"]
    assert s3.bucket.keys("orders/") == ["orders/2026-01-01 03:00/snapshot.db"]
    s3.bucket.delete("other")
    assert s3.bucket.keys() == ["orders/2026-01-01 03:00/snapshot.db"]
    with pytest.raises(S3Error) as missing:
        s3.bucket.get("other")
    assert (missing.value.status, missing.value.code) == (404, "NoSuchKey")


def test_an_upload_in_parts_is_one_object_and_can_be_read_in_ranges(s3: S3) -> None:
    parts = [secrets.token_bytes(5 * MIB), secrets.token_bytes(5 * MIB), b"the rest"]
    whole = b"".join(parts)
    s3.bucket.upload("large", parts)
    assert s3.bucket.get("large") == whole
    assert s3.bucket.get("large", first=5 * MIB - 3, last=5 * MIB + 2) == whole[5 * MIB - 3 : 5 * MIB + 3]
    assert s3.bucket.get("large", first=10 * MIB) == b"the rest"
    assert s3.bucket.uploads() == []


def test_nothing_is_left_of_an_upload_that_fails(s3: S3) -> None:
    def cut_off() -> Iterator[bytes]:
        yield bytes(5 * MIB)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        s3.bucket.upload("large", cut_off())
    assert s3.bucket.keys() == []
    assert s3.bucket.uploads() == []


def test_small_parts_are_refused_as_by_the_original(s3: S3) -> None:
    with pytest.raises(S3Error) as refused:
        s3.bucket.upload("large", [b"too small", b"the rest"])
    assert refused.value.code == "EntityTooSmall"


@pytest.mark.parametrize("wrong", ["secret", "access key"])
def test_a_wrong_key_is_refused(s3: S3, wrong: str) -> None:
    key = Key(s3.key.access, "wrong") if wrong == "secret" else Key("NOBODY", s3.key.secret)
    with pytest.raises(S3Error) as refused:
        replace(s3.account, key=key).request("GET", f"/{s3.bucket.name}")
    assert refused.value.status == 403
    assert refused.value.code == {"secret": "SignatureDoesNotMatch", "access key": "InvalidAccessKeyId"}[wrong]


def test_a_request_without_a_signature_is_refused(s3: S3) -> None:
    from fleet.testing.http import exchange

    assert exchange("GET", f"{s3.url}/{s3.bucket.name}").status == 403


def test_accounts_do_not_see_the_buckets_of_others(s3: S3) -> None:
    s3.bucket.put("mine", b"1")
    other = replace(s3.bucket, account=s3.new_account())
    with pytest.raises(S3Error) as refused:
        other.get("mine")
    assert (refused.value.status, refused.value.code) == (403, "AccessDenied")
    assert other.account.buckets() == []
    s3.remove(other.account)
    with pytest.raises(S3Error, match="InvalidAccessKeyId"):
        other.account.buckets()


def test_a_missing_bucket_is_named(s3: S3) -> None:
    with pytest.raises(S3Error) as missing:
        replace(s3.bucket, name="not-there").put("a", b"b")
    assert (missing.value.status, missing.value.code) == (404, "NoSuchBucket")


def test_more_objects_than_fit_on_a_page_are_all_listed(s3: S3) -> None:
    names = [f"{number:03}" for number in range(25)]
    for name in names:
        s3.bucket.put(name, name.encode())
    page = s3.account.request("GET", f"/{s3.bucket.name}", {"list-type": "2", "max-keys": "10"}).body
    assert page.count(b"<Key>") == 10
    assert s3.bucket.keys() == names


@pytest.mark.parametrize(
    ("url", "signature"),
    [
        ("/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_signatures_are_those_that_amazon_publishes_as_examples(url: str, signature: str) -> None:
    key = Key("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    place = f"https://examplebucket.s3.amazonaws.com{url}"
    headers = sign_request("GET", place, key, region="us-east-1", moment=datetime(2013, 5, 24, tzinfo=UTC))
    assert headers["Authorization"].endswith(f"Signature={signature}")
