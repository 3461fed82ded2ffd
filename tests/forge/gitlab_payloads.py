"""What GitLab answers, after https://docs.gitlab.com/api/; the test server holds it against GitLab's own client."""

from __future__ import annotations

from typing import Any

HEAD = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
BASE = "95790bf891e76fee5e1747ab589903a6a1f80f22"
URL = "https://gitlab.example.com/forge"
USER = {"id": 11, "name": "Ann", "username": "ann", "state": "active"}


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
