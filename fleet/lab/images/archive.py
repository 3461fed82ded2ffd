"""Image archives and their layers, as `docker save` writes and containerd imports them: layers, a config, a manifest.

A layer is a directory, or what one root file system adds to another: a node stores what images share only once.
"""

from __future__ import annotations

import hashlib
import io
import platform
import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from fleet.lab.files import hash_file

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_archive(
    target: Path,
    reference: str,
    layers: Sequence[Path],
    command: Sequence[str],
    *,
    user: str = "",
    environment: Sequence[str] = (),
) -> None:
    """Write an image archive from layers, each a tar of a part of the root file system."""
    digests = [hash_file(layer) for layer in layers]
    config: dict[str, Any] = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": list(command), "Env": [f"PATH={PATH}", *environment], "WorkingDir": "/", "User": user},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }
    blob = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
    config_name = f"{hashlib.sha256(blob).hexdigest()}.json"
    names = [f"{digest}/layer.tar" for digest in digests]
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": names}]
    with tarfile.open(target, "w") as archive:
        for name, layer in zip(names, layers, strict=True):
            archive.add(layer, name, filter=_anonymize)
        _add_member(archive, config_name, blob)
        _add_member(archive, "manifest.json", orjson.dumps(manifest))


def write_layer(files: Path, target: Path, *, owned: Iterable[str] = (), owner: int = 0) -> None:
    """Write a layer from a directory, owned by root and with a fixed time: equal content gives an equal layer.

    `owned` are further directories of the layer, empty and owned by `owner`.
    """
    with tarfile.open(target, "w") as layer:
        for file in sorted(files.rglob("*")):
            layer.add(file, file.relative_to(files).as_posix(), recursive=False, filter=_anonymize)
        for path in owned:
            member = tarfile.TarInfo(path.strip("/"))
            member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o755, owner, owner
            layer.addfile(member)


def read_images(archive: Path) -> dict[str, str]:
    """Return the images of an archive by name, each with the identity of its content; none if it is no archive."""
    try:
        with tarfile.open(archive) as tar:
            names = tar.getnames()
            if "manifest.json" in names:
                images = _read_json(tar, "manifest.json")
                return {tag: _config_digest(image["Config"]) for image in images for tag in image.get("RepoTags") or []}
            if "index.json" in names:
                entries = _read_json(tar, "index.json")["manifests"]
                named = [(entry.get("annotations", {}).get("io.containerd.image.name"), entry) for entry in entries]
                return {name: entry["digest"].rpartition(":")[2] for name, entry in named if name}
    except (tarfile.TarError, orjson.JSONDecodeError, OSError, KeyError, TypeError):
        return {}
    return {}


def is_whole(archive: Path, reference: str) -> bool:
    """Return whether an archive of ours has this image undamaged: its parts have their checksums as names.

    A process reads a file once for that, and again if it changed.
    """
    try:
        status = archive.stat()
    except OSError:
        return False
    return _is_whole(archive, reference, (status.st_ino, status.st_size, status.st_mtime_ns))


@cache
def _is_whole(archive: Path, reference: str, state: tuple[int, ...]) -> bool:
    try:
        with tarfile.open(archive, "r:") as tar:
            [image] = _read_json(tar, "manifest.json")
            digests = {layer: layer.removesuffix("/layer.tar") for layer in image["Layers"]}
            digests[image["Config"]] = _config_digest(image["Config"])
            return image["RepoTags"] == [reference] and all(_digest(tar, name) == digests[name] for name in digests)
    except (tarfile.TarError, OSError, KeyError, TypeError, ValueError):
        return False


def _digest(tar: tarfile.TarFile, name: str) -> str:
    digest, member = hashlib.sha256(), tar.extractfile(name)
    while member and (piece := member.read(1 << 20)):
        digest.update(piece)
    return digest.hexdigest()


def _read_json(tar: tarfile.TarFile, name: str) -> Any:
    member = tar.extractfile(name)
    return orjson.loads(member.read()) if member else None


def _config_digest(config: str) -> str:
    return config.rpartition("/")[2].removesuffix(".json")


def _anonymize(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = 0
    return member


def _add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


WHITEOUT = ".wh."  # a layer says with this prefix that a file of a layer below is gone
Fingerprint = tuple[object, ...]


def write_difference(below: Path, whole: Path, target: Path, *, without: Iterable[str] = ()) -> None:
    """Write a layer with what the tar `whole` has and the tar `below` has not, and with marks for removed files.

    `without` are patterns of paths that are left out; as in dpkg's, `*` matches any text.
    """
    fingerprints_below = dict(_fingerprints(below))
    patterns = tuple(without)
    paths = set()
    with tarfile.open(whole) as source, tarfile.open(target, "w") as layer:
        for member in source:
            path = _path(member)
            paths.add(path)
            if any(fnmatchcase(f"/{path}", pattern) for pattern in patterns):
                continue
            if fingerprints_below.get(path) != _fingerprint(source, member):
                member.name = path
                # Of a long name: it would win over the new one.
                member.pax_headers = {key: value for key, value in member.pax_headers.items() if key != "path"}
                layer.addfile(member, source.extractfile(member) if member.isreg() else None)
        for path in sorted(fingerprints_below.keys() - paths):
            parent, name = posixpath.split(path)
            if parent in paths or not parent:  # below a directory that is gone there is nothing more to say
                layer.addfile(tarfile.TarInfo(posixpath.join(parent, f"{WHITEOUT}{name}")))


def _fingerprints(root: Path) -> Iterator[tuple[str, Fingerprint]]:
    with tarfile.open(root) as tar:
        for member in tar:
            yield _path(member), _fingerprint(tar, member)


def _fingerprint(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Fingerprint:
    content = tar.extractfile(member) if member.isreg() else None
    digest = hashlib.sha256(content.read()).digest() if content else b""
    return member.type, member.mode, member.uid, member.gid, member.linkname, digest


def _path(member: tarfile.TarInfo) -> str:
    return posixpath.normpath(member.name).lstrip("/")
