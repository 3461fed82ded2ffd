"""What GitLab sends and answers, after https://docs.gitlab.com/user/project/integrations/webhook_events/ and /api/."""

from __future__ import annotations

from typing import Any

HEAD = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
BASE = "95790bf891e76fee5e1747ab589903a6a1f80f22"
URL = "https://gitlab.example.com/forge"

PROJECT = {
    "id": 1,
    "name": "fleet",
    "web_url": f"{URL}/team/sub/fleet",
    "git_http_url": f"{URL}/team/sub/fleet.git",
    "path_with_namespace": "team/sub/fleet",
    "default_branch": "main",
}
USER = {"id": 11, "name": "Ann", "username": "ann", "email": "[REDACTED]"}
MERGE_REQUEST: dict[str, Any] = {
    "object_kind": "merge_request",
    "event_type": "merge_request",
    "user": USER,
    "project": PROJECT,
    "object_attributes": {
        "id": 99,
        "iid": 7,
        "target_branch": "main",
        "source_branch": "francs",
        "source_project_id": 14,
        "target_project_id": 1,
        "author_id": 11,
        "title": "Prices in francs",
        "state": "opened",
        "source": {
            "web_url": f"{URL}/ann/fleet",
            "git_http_url": f"{URL}/ann/fleet.git",
            "path_with_namespace": "ann/fleet",
        },
        "target": PROJECT,
        "last_commit": {"id": HEAD, "message": "Prices in francs"},
        "url": f"{URL}/team/sub/fleet/-/merge_requests/7",
        "action": "open",
    },
    "changes": {},
}
NOTE: dict[str, Any] = {
    "object_kind": "note",
    "event_type": "note",
    "user": USER,
    "project": PROJECT,
    "object_attributes": {
        "id": 1244,
        "note": "Looks good",
        "noteable_type": "MergeRequest",
        "author_id": 11,
        "system": False,
        "action": "create",
        "url": f"{URL}/team/sub/fleet/-/merge_requests/7#note_1244",
    },
    "merge_request": {"id": 99, "iid": 7, "title": "Prices in francs", "state": "opened"},
}
PUSH: dict[str, Any] = {
    "object_kind": "push",
    "event_name": "push",
    "before": "1" * 40,
    "after": HEAD,
    "ref": "refs/heads/main",
    "user_username": "ann",
    "project": PROJECT,
}


def merge_request(**changes: Any) -> dict[str, Any]:
    """As `GET /projects/:id/merge_requests/:iid` answers."""
    return {
        "id": 99,
        "iid": 7,
        "project_id": 1,
        "title": "Prices in francs",
        "state": "opened",
        "target_branch": "main",
        "source_branch": "francs",
        "source_project_id": 1,
        "target_project_id": 1,
        "author": USER,
        "sha": HEAD,
        "web_url": f"{URL}/team/sub/fleet/-/merge_requests/7",
        "diff_refs": {"base_sha": BASE, "head_sha": HEAD, "start_sha": BASE},
        **changes,
    }


def note(number: int, body: str, author: str = "fleet-bot", *, system: bool = False) -> dict[str, Any]:
    """As `/projects/:id/merge_requests/:iid/notes` has it."""
    return {
        "id": number,
        "body": body,
        "author": {"id": 5, "username": author, "state": "active"},
        "created_at": "2026-01-02T03:04:05.678Z",
        "system": system,
        "noteable_id": 99,
        "noteable_type": "MergeRequest",
        "noteable_iid": 7,
    }
