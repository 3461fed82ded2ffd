"""Where a bucket is: which URL an object has in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlencode, urlsplit

from fleet.s3.signature import UNRESERVED

REGION = "us-east-1"  # what stores that know no regions expect
Style = Literal["path", "host"]


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket and the store that it is in."""

    bucket: str
    endpoint: str = ""  # of the store; Amazon's of the region unless given
    region: str = REGION
    style: Style | None = None  # where the bucket's name stands in a URL; as the store is known to want it unless given

    @property
    def base(self) -> str:
        """The URL of the bucket, without a slash at its end."""
        parts = urlsplit(self.endpoint or f"https://s3.{self.region}.amazonaws.com")
        if self.is_named_by_host:
            return f"{parts.scheme}://{self.bucket}.{parts.netloc}"
        return f"{parts.scheme}://{parts.netloc}/{quote(self.bucket, UNRESERVED)}"

    @property
    def is_named_by_host(self) -> bool:
        """Whether the bucket's name is part of the host's. Amazon wants it so; for a name with a dot its certificate
        does not fit. Other stores need a name service for it, so that it is asked for."""
        if self.style is None:
            return not self.endpoint and "." not in self.bucket
        return self.style == "host"

    def url(self, name: str = "", query: dict[str, str] | None = None) -> str:
        """Return the URL of an object, or of the bucket."""
        arguments = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"{self.base}/{quote(name, f'/{UNRESERVED}')}{arguments}"

    def __str__(self) -> str:
        return f"{self.endpoint or 's3:/'}/{self.bucket}"
