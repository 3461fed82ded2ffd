"""Whether the operator can reach its API server, and as whom: the first thing to look at when it cannot work."""

from __future__ import annotations

from kubernetes.aio import client, config


async def check_access() -> tuple[str, str]:
    """The API server's version, and the name that it knows this pod by."""
    config.load_incluster_config()
    async with client.ApiClient() as api:
        version = await client.VersionApi(api).get_code()
        review = await client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview())
        return version.git_version, review.status.user_info.username
