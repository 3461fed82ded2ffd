"""A small runtime for controllers, level-triggered as controller-runtime's: keys in, one state of the world out.

A controller is a function that looks at one object and makes things so. It is called when the object, or anything
that belongs to it, changes; again after failures, ever later; and for every object when the process starts. It must
not remember anything between calls, and must be able to run at any time.

    import fleet.kube.runtime as kube

    GREETINGS = kube.Resource("example.com", "v1", "Greeting", "greetings", namespaced=True)
    CONFIG_MAPS = kube.Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)

    async def greet(request: kube.Request) -> kube.Result | None:
        greeting = request.object
        if greeting is None:
            return None  # what it owned is collected by Kubernetes
        text = f"Hello, {greeting['spec']['to']}!"
        await request.write.apply(CONFIG_MAPS, kube.child_of(greeting, data={"text": text}))
        await request.write.status(GREETINGS, greeting, {"text": text})
        request.event("Greeted", text)
        return None

    operator = kube.Operator("greeter", [kube.Controller("greeting", GREETINGS, greet, owns=(CONFIG_MAPS,))])

    if __name__ == "__main__":
        operator.main()

What the runtime sees to, one idea per module:

- `informer`: lists and watches that survive failures of networks and servers, into a `cache` with indexes
- `views`: which caches a pass has, of everything or of its own namespace, and what follows from missing rights
- `handlers`: which changes matter (predicates), and to which keys (mappings)
- `queue`: each key once, never two passes of one key at a time, urgent keys first, delays after failures
- `controller`, `outcome`: a pass, its time limit, and what follows from each end it can have
- `reconcile_limits`, `memory_budget`: how much CPU time and memory a pass and a namespace may take
- `writer`, `guard`, `leader`: writes only while this process leads; own writes are in the caches at once
- `events`, `metrics`: one line per happening; the metrics that dashboards know
- `operator`: all of it in a process, with an orderly end
"""

TYPE_CHECKING = False  # as in fleet/__init__.py: `queue` and `metrics` are loaded without the rest
if TYPE_CHECKING:
    from fleet.kube.runtime.cache import Cache, Change, Name
    from fleet.kube.runtime.controller import Controller, Request
    from fleet.kube.runtime.guard import Guard, GuardedClient, NotLeadingError
    from fleet.kube.runtime.handlers import child_of
    from fleet.kube.runtime.leader import Lease
    from fleet.kube.runtime.operator import Operator
    from fleet.kube.runtime.outcome import Result, TerminalError
    from fleet.kube.runtime.queue import Backoff
    from fleet.kube.runtime.views import NoRightsError, NotSeenError, Watch
    from fleet.objects.resource import Resource

_HOMES = {
    "fleet.kube.discovery": ("Resource",),
    "fleet.kube.runtime.cache": ("Cache", "Change", "Name"),
    "fleet.kube.runtime.handlers": ("child_of",),
    "fleet.kube.runtime.controller": ("Controller", "Request"),
    "fleet.kube.runtime.guard": ("Guard", "GuardedClient", "NotLeadingError"),
    "fleet.kube.runtime.leader": ("Lease",),
    "fleet.kube.runtime.operator": ("Operator",),
    "fleet.kube.runtime.outcome": ("Result", "TerminalError"),
    "fleet.kube.runtime.queue": ("Backoff",),
    "fleet.kube.runtime.views": ("NoRightsError", "NotSeenError", "Watch"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Backoff",
    "Cache",
    "Change",
    "Controller",
    "Guard",
    "GuardedClient",
    "Lease",
    "Name",
    "NoRightsError",
    "NotLeadingError",
    "NotSeenError",
    "Operator",
    "Request",
    "Resource",
    "Result",
    "TerminalError",
    "Watch",
    "child_of",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'fleet.kube.runtime' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
