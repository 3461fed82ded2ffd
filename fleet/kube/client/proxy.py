"""The proxy between fleet and a cluster: that of the kubeconfig, or of the environment as Go's httpproxy reads it.

Pure. kubectl is the original: a client with other rules reaches another machine than kubectl does. SOCKS is refused by
name, since nothing here speaks it.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

PORTS = {"http": "80", "https": "443"}
SOCKS = ("socks5", "socks5h")


def choose_proxy(server: str, own: str, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy, None for a direct connection. Raise ValueError for one that cannot be used.

    `own` is the kubeconfig's `proxy-url`: it holds for every address, also where NO_PROXY names it.
    """
    if own:
        return _check_proxy(own, "the kubeconfig's proxy-url")
    scheme = urlsplit(server).scheme
    name = f"{scheme.upper()}_PROXY"
    proxy = environment.get(name) or environment.get(name.lower()) or ""
    if not proxy or not _is_proxied(server, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    if scheme == "http" and environment.get("REQUEST_METHOD"):
        raise ValueError("HTTP_PROXY is not used in a CGI program, where whoever asks may have set it")
    parts = urlsplit(proxy)
    return _check_proxy(proxy if parts.scheme and parts.netloc else f"http://{proxy}", name)


def _check_proxy(url: str, origin: str) -> str:
    """Return the URL if aiohttp speaks the proxy's protocol; else raise ValueError, whose message has no password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        address = f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        raise ValueError(f"{origin} is not the URL of a proxy") from None
    if parts.scheme in SOCKS:
        raise ValueError(
            f"{origin} names a SOCKS proxy ({parts.scheme}://{address}), which fleet does not speak: name an HTTP proxy"
        )
    if parts.scheme not in PORTS or not host:
        raise ValueError(f"{origin} does not begin with http:// or https:// and the name of a host")
    return url


def _is_proxied(server: str, exempt: str) -> bool:
    parts = urlsplit(server)
    host = parts.hostname or ""
    port = str(parts.port or PORTS.get(parts.scheme, ""))
    address = _parse_address(host)
    if host == "localhost" or (address and address.is_loopback):
        return False
    if address is None:
        with contextlib.suppress(UnicodeError):
            host = host.encode("idna").decode()
    entries = [entry.strip().lower() for entry in exempt.split(",")]
    return not any(entry and _matches_entry(entry, host, port, address) for entry in entries)


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches_entry(entry: str, host: str, port: str, address: Address | None) -> bool:
    if entry == "*":
        return True
    if (network := _parse_network(entry)) is not None:
        return address is not None and address.version == network.version and address in network
    name, wanted_port = _split_host_port(entry)
    if wanted_port and wanted_port != port:
        return False
    if (exempted := _parse_address(name)) is not None:
        return address == exempted
    if address is not None or not name:
        return False
    name = name.removeprefix("*") if name.startswith("*.") else name
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_host_port(entry: str) -> tuple[str, str]:
    """Return host and port of `host:port` or `[host]:port`; of anything else the whole, without a port."""
    if entry.startswith("["):
        host, bracket, port = entry[1:].partition("]:")
        return (host, port) if bracket and "]" not in host and ":" not in port else (entry, "")
    return (entry.partition(":")[0], entry.partition(":")[2]) if entry.count(":") == 1 else (entry, "")


def _parse_network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    base, slash, length = entry.partition("/")
    if not slash or not length.isdecimal() or _parse_address(base) is None:
        return None  # a mask of four numbers is no network to Go
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _parse_address(text: str) -> Address | None:
    """Return the address; that of IPv4 for an IPv4-mapped IPv6 address; None if the text is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
