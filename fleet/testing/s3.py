"""The lab's S3 server as a test sees it: accounts with keys, buckets, objects, multipart uploads.

Each request is one exchange, without the retries of `fleet.s3`: a test sees what the server said.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from fleet.errors import ResourceError
from fleet.s3.signature import UNRESERVED, Key, sign_request
from fleet.testing.http import HttpAnswer, exchange

__all__ = ["S3", "Account", "Bucket", "Key", "S3Error", "sign_request"]


class S3Error(ResourceError):
    """A refusal of the server: `status` of its response, `code` such as NoSuchBucket or SignatureDoesNotMatch."""

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Account:
    """An account: a key, and the server that knows it."""

    url: str
    region: str
    key: Key

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send a signed request; what the server refuses raises S3Error."""
        arguments = f"?{urlencode(query, quote_via=quote)}" if query else ""
        url = f"{self.url}{quote(path, f'/{UNRESERVED}')}{arguments}"
        signature = sign_request(method, url, self.key, region=self.region, moment=datetime.now(UTC), body=body)
        response = exchange(method, url, headers={**(headers or {}), **signature}, body=body)
        if not response.good:
            code = _text(response.body, "Code") or str(response.status)
            message = f"{method} {path}: {response.status} {code} {_text(response.body, 'Message')}".rstrip()
            raise S3Error(message, response.status, code)
        return response

    def new_bucket(self, name: str = "") -> Bucket:
        """Make a bucket of this account."""
        bucket = Bucket(self, name or f"bucket-{secrets.token_hex(6)}")
        self.request("PUT", f"/{bucket.name}")
        return bucket

    def buckets(self) -> list[Bucket]:
        """Return the buckets of this account."""
        return [Bucket(self, name) for name in _texts(self.request("GET", "/").body, "Bucket/Name")]


@dataclass(frozen=True, slots=True)
class S3:
    """A running S3 server, its administrator, and an account and a bucket of the test's own."""

    url: str
    region: str
    administrator: Account
    account: Account
    bucket: Bucket

    @classmethod
    def of(cls, url: str, region: str, key: Key) -> S3:
        root = Account(url, region, key)
        account = _new_account(root)
        return cls(url, region, root, account, account.new_bucket())

    @property
    def key(self) -> Key:
        """Return the key of the test's own account."""
        return self.account.key

    def new_account(self) -> Account:
        """Make one more account, which may make buckets and sees only its own."""
        return _new_account(self.administrator)

    def remove(self, account: Account) -> None:
        """Remove an account with all that it has."""
        for bucket in account.buckets():
            bucket.remove()
        self.administrator.request("PATCH", "/delete-user", {"access": account.key.access})


def _new_account(administrator: Account) -> Account:
    key = Key(f"TEST{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30))
    fields = {"Access": key.access, "Secret": key.secret, "Role": "userplus"}
    content = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
    administrator.request("PATCH", "/create-user", body=f"<Account>{content}</Account>".encode())
    return Account(administrator.url, administrator.region, key)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, as an account uses it."""

    account: Account
    name: str

    def put(self, key: str, content: bytes) -> None:
        self.account.request("PUT", f"/{self.name}/{key}", body=content)

    def get(self, key: str, *, first: int | None = None, last: int | None = None) -> bytes:
        """Return an object, or its bytes from `first` to `last`, both included."""
        headers = {} if first is None else {"Range": f"bytes={first}-{'' if last is None else last}"}
        return self.account.request("GET", f"/{self.name}/{key}", headers=headers).body

    def keys(self, prefix: str = "") -> list[str]:
        """Return the names of the bucket's objects, in order."""
        names: list[str] = []
        query = {"list-type": "2", "prefix": prefix}
        while True:
            page = self.account.request("GET", f"/{self.name}", query).body
            names += _texts(page, "Contents/Key")
            following = _text(page, "NextContinuationToken")
            if not following:
                return names
            query["continuation-token"] = following

    def delete(self, key: str) -> None:
        self.account.request("DELETE", f"/{self.name}/{key}")

    def upload(self, key: str, parts: Iterable[bytes]) -> None:
        """Make an object by a multipart upload; every part but the last has at least 5 MiB.

        Nothing is left of an upload that fails.
        """
        path = f"/{self.name}/{key}"
        upload = _text(self.account.request("POST", path, {"uploads": ""}).body, "UploadId")
        try:
            completed = ""
            for number, part in enumerate(parts, 1):
                response = self.account.request("PUT", path, {"partNumber": str(number), "uploadId": upload}, part)
                tag = escape(response.headers["etag"])
                completed += f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
            body = f"<CompleteMultipartUpload>{completed}</CompleteMultipartUpload>".encode()
            self.account.request("POST", path, {"uploadId": upload}, body)
        except BaseException:
            self.account.request("DELETE", path, {"uploadId": upload})
            raise

    def uploads(self) -> list[str]:
        """Return the keys of multipart uploads that were begun and neither completed nor aborted."""
        return _texts(self.account.request("GET", f"/{self.name}", {"uploads": ""}).body, "Upload/Key")

    def remove(self) -> None:
        """Remove the bucket with all that is in it."""
        for key in self.keys():
            self.delete(key)
        self.account.request("DELETE", f"/{self.name}")


def _texts(document: bytes, path: str) -> list[str]:
    """Return the texts at a path anywhere in a response, whatever its name space."""
    try:
        root = ElementTree.fromstring(document)  # noqa: S314 - from the lab's own server
    except ElementTree.ParseError:
        return []
    pattern = "/".join(f"{{*}}{name}" for name in path.split("/"))
    return [element.text or "" for element in root.iterfind(f".//{pattern}")]


def _text(document: bytes, path: str) -> str:
    return next(iter(_texts(document, path)), "")
