"""What a StatefulSet of others has and no field of an app says: kept as found, and named so that nobody is surprised.

The same for every engine. What a server fills in by itself is left out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fleet.kit.adoption.surroundings import Object

_POD = {  # what a server fills in, and what is looked at elsewhere (None)
    "containers": None,
    "initContainers": None,
    "volumes": None,
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "enableServiceLinks": True,
}
_CONTAINER = {
    "name": None,
    "image": None,
    "command": None,
    "args": None,
    "env": None,
    "envFrom": None,
    "ports": None,
    "resources": None,
    "volumeMounts": None,
    "lifecycle": None,
    "imagePullPolicy": None,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_SET = {
    "minReadySeconds": 0,
    "ordinals": {},
}


def unsaid(found: Object, container: str, claim: str, *, prefix: str, secrets: Iterable[str]) -> Iterator[str]:
    """Yield what no field says. `prefix` begins variables that are settings of the engine; `claim` and `secrets` are
    known to be its own."""
    spec, template = found["spec"], found["spec"]["template"]["spec"]
    one = next(each for each in template["containers"] if each["name"] == container)
    if names := [name for name, usual in _SET.items() if (spec.get(name) or usual) != usual]:
        yield f"StatefulSet: {', '.join(names)}"
    if "Delete" in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).values():
        yield "persistentVolumeClaimRetentionPolicy, from when it is given back on: until then volumes stay"
    if names := _other(template, _POD):
        yield f"pods: {', '.join(names)}"
    if names := _other(one, _CONTAINER):
        yield f"container {container}: {', '.join(names)}"
    yield from _hooks(one)
    yield from _environment(one, prefix)
    yield from _volumes(found, claim, frozenset(secrets))
    yield from (f"container {each['name']}" for each in template["containers"] if each is not one)
    yield from (f"init container {each['name']}" for each in template.get("initContainers") or ())


def _other(of: Object, known: dict[str, Any]) -> list[str]:
    alike = {"serviceAccount": "serviceAccountName"}  # two names of one thing, the first of them old
    return [
        name
        for name, value in sorted(of.items())
        if value not in (None, {}, [], "") and name not in alike and (name not in known or _differs(value, known[name]))
    ]


def _differs(value: Any, usual: Any) -> bool:
    return usual is not None and value != usual


def _hooks(container: Object) -> Iterator[str]:
    for name, hook in sorted((container.get("lifecycle") or {}).items()):
        if not isinstance(hook, dict):
            yield f"signal to stop: {hook}"
            continue
        words = " ".join((hook.get("exec") or {}).get("command") or ()) or ", ".join(sorted(hook))
        when = "starts" if name == "postStart" else "stops"
        yield f"hook {name}, whenever a member {when}: {' '.join(words.split())[:80]}"


def _environment(container: Object, prefix: str) -> Iterator[str]:
    for source in container.get("envFrom") or ():
        for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if reference := source.get(field):
                yield f"environment: {kind} {reference['name']}"
    own = [
        str(one["name"])
        for one in container.get("env") or ()
        if not one["name"].startswith(prefix) and "fieldRef" not in (one.get("valueFrom") or {})
    ]
    if own:
        yield f"environment: {', '.join(own)}"


def _volumes(found: Object, claim: str, secrets: frozenset[str]) -> Iterator[str]:
    for one in found["spec"].get("volumeClaimTemplates") or ():
        if one["metadata"]["name"] != claim:
            yield f"claim template {one['metadata']['name']}"
    for one in found["spec"]["template"]["spec"].get("volumes") or ():
        if (one.get("secret") or {}).get("secretName") not in secrets:
            yield f"volume {one['name']} ({next((kind for kind in one if kind != 'name'), 'empty')})"
