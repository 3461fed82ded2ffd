"""TLS for members that others set up without it: what is etcd's in the stages of `fleet.kit.adoption.tls_stages`. Pure.

While peers change to TLS a member is known by both of its peer URLs, so that whoever dials it finds the one that it
listens on.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.apps.etcd import names, secured
from fleet.apps.etcd.driver import DRIVER
from fleet.apps.etcd.engine.observe import EtcdObservation, members_by_pod
from fleet.apps.etcd.layout import Layout
from fleet.apps.etcd.spec import Etcd
from fleet.kit.adoption.encryption import Stage
from fleet.kit.adoption.tls_stages import TlsStages
from fleet.kit.observe.observation import in_order
from fleet.kit.observe.world import Object
from fleet.kit.step import Act, Decision, State, step


class EtcdStages(TlsStages[Etcd, Layout]):
    too_old = "serves clients with TLS and without on one port only from 3.4.25 and 3.5.8 on"

    def serves_both(self, version: str) -> bool:
        return secured.serves_both(version)

    def at(self, layout: Layout, stage: Stage, template: Object) -> Layout:
        match stage:
            case "open":
                return secured.opened(layout)
            case "closing":
                return secured.closing(layout, template)
            case "closed":
                return secured.closed(layout)
        return replace(layout, secured=stage)

    def readdress(self, observation: EtcdObservation, app: Etcd) -> Decision | None:
        """Change one member's peer URLs after the other's."""
        for pod in in_order(observation.voters):
            wanted, member = names.peer_urls(app, pod), members_by_pod(observation)[pod]
            if set(member.peer_urls) != set(wanted):
                note = f"{pod} is known to the others as {', '.join(wanted)}"
                arguments = {"member": member.id, "peer_urls": ",".join(wanted)}
                return step(State.PROGRESSING, "Encrypting", note, Act("readdress", arguments, "Readdressed", note))
        return None


STAGES = EtcdStages(DRIVER.adoption_rules())
