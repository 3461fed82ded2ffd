"""What members of an etcd that others set up say of their own addresses (`fleet.kit.adoption.takeover` takes them).
Pure."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from fleet.apps.etcd import names
from fleet.apps.etcd.engine.observe import EtcdObservation, make_agreement, members_of
from fleet.apps.etcd.engine.protocol import Member
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.takeover import PlacedApp
from fleet.kit.driver import Problem
from fleet.kit.names import lay_out


def known(placed: PlacedApp[Etcd], observation: EtcdObservation) -> EtcdObservation:
    """Return what was observed, with members' URLs as etcd itself has them: what a template says of them may have been
    a guess."""
    kept = names.layout(placed.app)
    members = members_of(observation)
    if placed.unfit or kept is None or placed.taken or members is None:
        return observation
    urls = _urls(observation, kept)
    if isinstance(urls, Problem):
        return replace(observation, unfit=urls)
    app = lay_out(placed.app, replace(kept, peer_url=urls[0], client_url=urls[1]))
    return replace(observation, app=app, agreement=make_agreement(app, members))


def _urls(observation: EtcdObservation, kept: Layout) -> tuple[str, str] | Problem:
    """Return the pattern of all members' peer URLs, and of their client URLs where these name the pod."""
    peers, clients = set(), set()
    for member in members_of(observation) or ():
        pod = _pod_of(observation, member)
        if pod is None:
            return Problem(
                "members",
                f"{', '.join(member.peer_urls)} is a member of this etcd and no pod of {kept.stateful_set}: "
                "members of several StatefulSets, or outside of any, cannot be one app",
            )
        patterns = [url.replace(pod, "{pod}", 1) for url in member.peer_urls if pod in url]
        if not patterns:
            return Problem("members", f"{pod} is known as {', '.join(member.peer_urls)}, which changes with its pod")
        peers.add(patterns[0])
        clients |= {url.replace(pod, "{pod}", 1) for url in member.client_urls if pod in url}
    if len(peers) > 1:
        return Problem("members", f"peer URLs follow no pattern: {', '.join(sorted(peers))}")
    return peers.pop(), clients.pop() if len(clients) == 1 else kept.client_url


def _pod_of(observation: EtcdObservation, member: Member) -> str | None:
    hosts = {(urlsplit(url).hostname or "").partition(".")[0] for url in member.peer_urls}
    return next((pod for pod in observation.pods if pod == member.name or pod in hosts), None)
