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
_ENDS = frozenset({";", "&&", "||", "|", "&", ";;"})
_KEYWORDS = frozenset({"exec", "command", "if", "then", "else", "elif", "while", "until", "do", "!", "{", "("})
_WRAPPERS = frozenset(  # they start what their arguments say
    {"chrt", "dumb-init", "env", "gosu", "ionice", "nice", "nohup", "numactl", "setpriv", "stdbuf", "su-exec", "sudo"}
    | {"taskset", "time", "timeout", "tini"}
)
_ASSIGNED = re.compile(r"(\w+)=(.*)", re.DOTALL)
_ASSIGNMENT = re.compile(r"""(?m)(?:^|[;&|{(]|\b(?:export|then|do|else))\s*(\w+)=("[^"]*"|'[^']*'|[^\s;&|]*)""")
# Of what is read of a template that anybody may have written. A variable may double another, and so on.
LONGEST_TEXT = 32 << 10
DEEPEST = 8  # commands within commands
_HOST = {"hostname": "{pod}", "hostname -s": "{pod}", "hostname -i": "{ip}"}


@dataclass(frozen=True, slots=True)
class Process:
    """`program` is the word that starts it, with its path if it has one; "" when only the image knows what it starts.
    `words` are its arguments. What is known only when it runs still has a `$` in it.
    """

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
    """Yield the process of each container that starts `program`, itself or by a shell, once for each place where a
    script does; or that leaves to its image what it starts."""
    for one in template["spec"]["containers"]:
        environment = _environment(one, namespace, find)
        words = [_expanded(word, environment) for word in (*(one.get("command") or ()), *(one.get("args") or ()))]
        started = list(_started(words, environment, program))
        for word, arguments, own in started:
            yield Process(one["name"], word, tuple(arguments), {**environment, **own})
        if not started and not one.get("command"):
            yield Process(one["name"], "", tuple(words), environment)


def flags(words: tuple[str, ...]) -> dict[str, str]:
    """Read --name=value, --name value and --name, as Go's programs take them."""
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


def references(template: Object, kind: str) -> set[str]:
    """Return the names of ConfigMaps or Secrets that pods mount or take their environment from, init containers too."""
    spec, field = template["spec"], "configMap" if kind == "ConfigMap" else "secret"
    volumes = spec.get("volumes") or ()
    held = [*volumes, *(one for volume in volumes for one in (volume.get("projected") or {}).get("sources") or ())]
    named = [one.get(field) or {} for one in held]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        named += [one.get(f"{field}Ref") or {} for one in container.get("envFrom") or ()]
        named += [(one.get("valueFrom") or {}).get(f"{field}KeyRef") or {} for one in container.get("env") or ()]
    return {str(one.get("secretName") or one["name"]) for one in named if one}


def file_of(template: Object, container: str, path: str, claims: frozenset[str]) -> File | None:
    """Return what is mounted where a path leads; None where nothing is."""
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


def claim_at(found: Object, container: str, path: str) -> str | None:
    """Return the claim template of a StatefulSet whose volume a path of a container leads to; None where it leads to
    no such volume."""
    claims = frozenset(claim["metadata"]["name"] for claim in found["spec"].get("volumeClaimTemplates") or ())
    held = file_of(found["spec"]["template"], container, path, claims) if path.startswith("/") else None
    return held.name if held is not None and held.kind == "PersistentVolumeClaim" else None


def hook_words(found: Object, container: str, hook: str, find: Find) -> str:
    """Return what a hook of a container says, with the scripts that it names where they are in a ConfigMap.

    What a script does that is in the image nobody knows: discovery names it.
    """
    template = found["spec"]["template"]
    entry: Object = next(entry for entry in template["spec"]["containers"] if entry["name"] == container)
    handler = (entry.get("lifecycle") or {}).get(hook) or {}
    words = " ".join((handler.get("exec") or {}).get("command") or ())
    for path in re.findall(r"(?<![\w.])/[-\w./]+", words):
        held = file_of(template, container, path, frozenset())
        if held is not None and held.kind == "ConfigMap":
            words += " " + (find(held.kind, held.name) or {}).get(held.key, "")
    return words


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
                value = str((find(kind, reference["name"]) or {}).get(reference["key"], f"$({one['name']})"))
        found[one["name"]] = _expanded(value, found)
    return {"HOSTNAME": "{pod}", **found}


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """Expand $(NAME) as a kubelet expands it: what it does not know stays."""
    return _replaced(r"\$\((\w+)\)", lambda match: environment.get(match[1], match[0]), word)


def _replaced(pattern: str, value: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace as re.sub does. What would make it longer than a script can be stays as it is: nobody knows it then."""
    left = LONGEST_TEXT - len(text)

    def known(match: re.Match[str]) -> str:
        nonlocal left
        made = value(match)
        if len(made) - len(match[0]) > left:
            return match[0]
        left -= len(made) - len(match[0])
        return made

    return re.sub(pattern, known, text) if left >= 0 else text


_Start = tuple[str, list[str], dict[str, str]]  # the program's word, its arguments, and variables that are its own


def _started(words: list[str], environment: Mapping[str, str], program: str) -> Iterator[_Start]:
    commands, own = [words], dict[str, str]()
    if _position(words, program) is None and any(_base(word) in _SHELLS for word in words):
        commands, own = _commands(_script(words), environment)
    for command in commands:
        if (at := _position(command, program)) is None:
            continue
        before = {match[1]: match[2] for word in command[:at] if (match := _ASSIGNED.fullmatch(word))}
        arguments = command[at + 1 :]
        end = next((at for at, word in enumerate(arguments) if re.match(r"\d*[<>]", word)), len(arguments))
        yield command[at], arguments[:end], own | before


def _script(words: list[str]) -> str:
    """Return the script that a shell among the words is given, wherever its `c` stands; "" if it is given none."""
    at = next(at for at, word in enumerate(words) if _base(word) in _SHELLS) + 1
    given = False
    while at < len(words) and re.fullmatch(r"[-+][-\w]+", words[at]):
        word, at = words[at], at + 1
        if word == "--":
            break
        if not word.startswith("--"):  # long ones, as bash has them, say nothing of a script
            given = given or (word[0] == "-" and "c" in word)
            at += len(re.findall("[oO]", word))  # each has a name behind it: -eco pipefail
    return words[at] if given and at < len(words) else ""


def _position(command: list[str], program: str) -> int | None:
    """Return the position of the program's word in a simple command that starts it. What only names it, or a path of
    its name, does not."""
    at = 0
    while at < len(command) and (command[at] in _KEYWORDS or _ASSIGNED.fullmatch(command[at])):
        at += 1
    if at < len(command) and _base(command[at]) in _WRAPPERS:
        words = range(at + 1, len(command))
        named = [one for one in words if _base(command[one]) == program and command[one][0] != "-"]
        return next((one for one in named if one + 1 not in named), None)  # before it, perhaps, a user of that name
    return at if at < len(command) and _base(command[at]) == program else None


def _commands(script: str, environment: Mapping[str, str]) -> tuple[list[list[str]], dict[str, str]]:
    """Return the simple commands of a shell's script, and the variables that it sets; of one that is too long none."""
    if len(script) > LONGEST_TEXT:
        return [], {}
    script = re.sub(r"(?m)^\s*#.*$", "", script).replace("\\\n", " ")
    script = _substituted(script)
    own: dict[str, str] = {}
    for name, value in _ASSIGNMENT.findall(script):
        made = _shell_expanded(value.strip("\"'"), {**environment, **own})
        own[name] = made if own.get(name, made) == made else f"${name}"  # set in two ways: which one, nobody knows
    script = _shell_expanded(script, {**environment, **own}).replace("\n", " ; ")
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        found = list(lexer)
    except ValueError:
        return [], own
    commands: list[list[str]] = [[]]
    for word in found:
        if word in _ENDS:
            commands.append([])
        else:
            commands[-1].append(word)
    return commands, own


def _substituted(script: str) -> str:
    """Replace commands within commands. What they print is not known, but for a pod's own name and address: `$()`
    stands for it."""

    def known(match: re.Match[str]) -> str:
        return _HOST.get(" ".join((match[1] or match[2] or "").split()), "$()")

    before = ""
    for _ in range(DEEPEST):
        if before == script:
            break
        before, script = script, re.sub(r"\$\(([^()]+)\)|`([^`]*)`", known, script)
    return script


def _shell_expanded(text: str, environment: Mapping[str, str]) -> str:
    """Expand $NAME, ${NAME} and ${NAME:-otherwise}: what is not known stays."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match[1] or match[3], match[2]
        found = environment.get(name, "")
        return found or (match[0] if otherwise is None and name not in environment else otherwise or "")

    return _replaced(r"\$\{(\w+)(?::?-([^}]{0,1024}))?\}|\$([A-Za-z_]\w*)", value, text)


def _base(word: str) -> str:
    return word.rpartition("/")[2]
