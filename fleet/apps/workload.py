"""What a pod template says about a container's process: its words and its environment, as far as they can be known
without running it. For drivers that recognise their engine in what others set up. Pure.

What differs from pod to pod is left as a name in braces: {pod} for the pod's name, {ip} for its address.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Find = Callable[[str, str], Mapping[str, str] | None]  # the texts of a ConfigMap or Secret by kind and name
_FIELDS = {"metadata.name": "{pod}", "status.podIP": "{ip}", "status.podIPs": "{ip}"}
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_ENDS = frozenset({";", "&&", "||", "|", "&", "\n"})


@dataclass(frozen=True, slots=True)
class Process:
    """`words` are the program's arguments; "" as `program` when only the image knows what it starts."""

    container: str
    program: str
    words: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class File:
    """Where a file of a container comes from."""

    kind: str  # Secret, ConfigMap, PersistentVolumeClaim (of a claim template), or what the volume is
    name: str
    key: str = ""


def processes(template: Object, namespace: str, find: Find, program: str) -> Iterator[Process]:
    """Of each container that starts `program`, itself or by a shell; or that leaves to its image what it starts."""
    for one in template["spec"]["containers"]:
        environment = _environment(one, namespace, find)
        words = [_expanded(word, environment) for word in (*(one.get("command") or ()), *(one.get("args") or ()))]
        if not one.get("command"):
            yield Process(one["name"], "", tuple(words), environment)
        elif _base(words[0]) in _SHELLS:
            if (found := _in_script(words, environment, program)) is not None:
                yield Process(one["name"], program, found, environment)
        elif _base(words[0]) == program:
            yield Process(one["name"], program, tuple(words[1:]), environment)


def flags(words: tuple[str, ...]) -> dict[str, str]:
    """--name=value, --name value and --name, as Go's programs take them."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        elif not equals:
            value = "true"
        found[name] = value
    return found


def file_of(template: Object, container: str, path: str, claims: frozenset[str]) -> File | None:
    """What is mounted where a path leads; None where nothing is."""
    spec = template["spec"]
    mounts = next((one.get("volumeMounts") or () for one in spec["containers"] if one["name"] == container), ())
    fitting = [one for one in mounts if path == one["mountPath"] or path.startswith(f"{one['mountPath'].rstrip('/')}/")]
    if not fitting:
        return None
    mount = max(fitting, key=lambda one: len(one["mountPath"]))
    if mount["name"] in claims:
        return File("PersistentVolumeClaim", mount["name"])
    volume: Object = next((one for one in spec.get("volumes") or () if one["name"] == mount["name"]), {})
    inside = "/".join(part for part in (mount.get("subPath", ""), path[len(mount["mountPath"]) :].strip("/")) if part)
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for kind, field, name in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
            if (held := source.get(field)) and (key := _key(held, inside)):
                return File(kind, str(held.get(name) or held.get("name", "")), key)
    return File(next((field for field in volume if field != "name"), "volume"), mount["name"])


def _key(held: Object, path: str) -> str:
    items = held.get("items")
    if not items:
        return path
    return next((str(one["key"]) for one in items if one["path"] == path), "")


def _environment(container: Object, namespace: str, find: Find) -> dict[str, str]:
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if reference := source.get(field):
                held = find(kind, reference["name"]) or {}
                found |= {f"{source.get('prefix', '')}{name}": value for name, value in held.items()}
    for one in container.get("env") or ():
        value = str(one.get("value", ""))
        where = one.get("valueFrom") or {}
        if path := (where.get("fieldRef") or {}).get("fieldPath"):
            value = namespace if path == "metadata.namespace" else _FIELDS.get(path, f"{{{path}}}")
        for kind, name in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
            if reference := where.get(name):
                value = str((find(kind, reference["name"]) or {}).get(reference["key"], ""))
        found[one["name"]] = _expanded(value, found)
    return {"HOSTNAME": "{pod}", **found}


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """$(NAME), as a kubelet expands it: what it does not know stays."""
    return re.sub(r"\$\((\w+)\)", lambda match: environment.get(match[1], match[0]), word)


def _in_script(words: list[str], environment: Mapping[str, str], program: str) -> tuple[str, ...] | None:
    """The arguments that a shell's script gives to the program, where it is one command as most are."""
    given = next((at for at, word in enumerate(words) if re.fullmatch(r"-\w*c", word)), None)
    script = words[given + 1] if given is not None and given + 1 < len(words) else ""
    script = script.replace("\\\n", " ").replace("$(hostname)", "{pod}").replace("`hostname`", "{pod}")
    script = re.sub(
        r"\$\{(\w+)\}|\$(\w+)", lambda match: environment.get(match[1] or match[2], match[0]), script
    ).replace("\n", " ; ")
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        found = list(lexer)
    except ValueError:
        return None
    begins = next((at for at, word in enumerate(found) if _base(word) == program), None)
    if begins is None:
        return None
    rest = found[begins + 1 :]
    end = next((at for at, word in enumerate(rest) if word in _ENDS), len(rest))
    return tuple(rest[:end])


def _base(word: str) -> str:
    return word.rpartition("/")[2]
