"""Plans in which everything occurs that a view has to show, made as data: no cluster, no clock, no release in it."""

from __future__ import annotations

from fleet.errors import Source
from fleet.objects.desired import Key
from fleet.objects.redaction import REDACTED
from fleet.plan import Change, Inventory, Plan, PlanView, Step, Verb
from fleet.plan.effect import Effect, EffectKind
from fleet.plan.views.summary import NamedRevision, ViewHeader

FILE = "stacks/orders.py"


def key(kind: str, name: str, group: str = "", namespace: str = "orders") -> Key:
    return Key(group, kind, namespace, name)


def source(line: int) -> Source:
    return Source(FILE, line)


UPGRADE = "upgrade 3.4 → 3.6 in 2 hops"
NO_RETURN = "point of no return: 3.5.26, from there back only by a restore"

STEPS = (
    Step(Verb.CREATE, key("ConfigMap", "new"), source=source(7)),
    Step(
        Verb.UPDATE,
        key("ConfigMap", "prices"),
        changes=(Change("data.currency", "EUR", "CHF"), Change("data.rounding", "cent", None)),
        source=source(9),
    ),
    Step(
        Verb.UPDATE,
        key("Secret", "login"),
        changes=(Change("data.password", REDACTED, REDACTED), Change("data.user", None, REDACTED)),
        source=source(11),
    ),
    Step(
        Verb.UPDATE,
        key("Deployment", "web", "apps"),
        changes=(
            Change(
                "spec.template.spec.containers[name=web].image",
                "registry.example.com/team/web:2026.11.15-production",
                "registry.example.com/team/web:2026.11.16-production",
            ),
        ),
        effect=Effect(EffectKind.RESTART, "rolling restart of 3 pods"),
        source=source(13),
    ),
    Step(
        Verb.UPDATE,
        key("Etcd", "store", "fleet.dev"),
        changes=(Change("spec.version", "3.4", "3.6"),),
        meanings=(f"{UPGRADE}: 3.4 → 3.5.26 → 3.6", "restarts 3 pods, 2 times each"),
        effect=Effect(EffectKind.UPGRADE, f"{UPGRADE}; {NO_RETURN}", True, NO_RETURN),
        source=source(15),
    ),
    Step(
        Verb.UPDATE,
        key("ConfigMap", "edited"),
        changes=(Change("data.by", "hand", "git"),),
        reason="drift: git does not change it; the cluster differs from what git says already",
        drift=True,
        source=source(17),
    ),
    Step(
        Verb.CREATE,
        key("Service", "web"),
        objection='Service "web" is invalid: spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535',
        source=source(19),
    ),
    Step(Verb.ADOPT, key("ConfigMap", "theirs"), reason="belonged to field manager kubectl", source=source(21)),
    Step(
        Verb.ADOPT,
        key("ConfigMap", "theirs-too"),
        changes=(Change("data.a", "1", "2"),),
        reason="belonged to field manager kubectl",
        source=source(23),
    ),
    Step(Verb.DELETE, key("ConfigMap", "old")),
    Step(
        Verb.DELETE,
        key("PersistentVolumeClaim", "data-store-0"),
        effect=Effect(EffectKind.DATA, "data deleted", destructive=True),
    ),
    Step(Verb.FORGET, key("Namespace", "orders-old", namespace=""), reason="holds data; left running"),
    Step(Verb.RECORD, key("ConfigMap", "kept"), changes=(Change("opts.protect", True, False),), source=source(25)),
    Step(
        Verb.CONFLICT,
        key("ConfigMap", "somebodys"),
        reason="exists and belongs to field manager helm; take it over with opts=Options(adopt=True)",
        source=source(27),
    ),
    Step(Verb.UNCHANGED, key("ConfigMap", "same"), source=source(29)),
)


def branches() -> list[PlanView]:
    def plan(stack: str, cluster: str, steps: tuple[Step, ...], owner: str = "") -> Plan:
        return Plan(stack, cluster, steps, Inventory(stack, cluster, repository=owner), repository="example.com/ours")

    problem = (
        "cannot reach cluster us-1 at https://us-1.example.com:6443\n  hint: check with: kubectl --context us-1 version"
    )
    return [
        PlanView("orders", "eu-1", plan("orders", "eu-1", STEPS, "example.com/ours")),
        PlanView("orders", "us-1", None, problem),
        PlanView("web", "eu-1", plan("web", "eu-1", STEPS[-1:], "example.com/ours")),
        PlanView("web", "us-1", plan("web", "us-1", STEPS[:1], "example.com/theirs")),
    ]


def about() -> ViewHeader:
    return ViewHeader(
        depth="live",
        base=NamedRevision("origin/main", "1" * 40, "What is there"),
        head=NamedRevision("better-prices", "2" * 40, "Prices in francs, and a newer store"),
        tree="3" * 40,
        plan_hash="4" * 64,
        hashes={(one.stack, one.cluster): "5" * 64 for one in branches()},
        remarks=("fleet.toml changes too; this preview is made with the settings of the base",),
    )
