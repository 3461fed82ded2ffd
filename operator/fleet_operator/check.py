"""Whether the operator can reach its API server, and as whom: the first thing to look at when it cannot work."""

from __future__ import annotations

from fleet.kube.client.client import Client

_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def check_access() -> tuple[str, str]:
    """The API server's version, and the name that it knows this pod by."""
    async with Client(in_cluster=True) as client:
        version = await client.request("GET", "/version")
        review = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=_REVIEW)
        return str(version.body["gitVersion"]), str(review.body["status"]["userInfo"]["username"])
