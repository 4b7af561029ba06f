"""Who is calling: resolvers that turn a request into its scope, or refuse; there is no default and no fallback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses, ip_address, ip_network

from fastapi import HTTPException, Request, status

from app.settings import ScopeResolver, Settings
from stores.records import Scope

Resolver = Callable[[Request], Awaitable[Scope]]
_Network = IPv4Network | IPv6Network


def scope_resolver(settings: Settings) -> Resolver:
    """Return the resolver the settings choose. Raises ValueError, naming the variable, if it cannot be built."""
    match settings.scope:
        case ScopeResolver.FIXED:
            return _fixed(settings)
        case ScopeResolver.HEADER:
            return _header(settings)
        case None:
            raise ValueError("AGUI_SCOPE is not set: there is no default.")


def _fixed(settings: Settings) -> Resolver:
    refusal = _why_not_a_scope(settings.scope_fixed, settings.scope_length_max)
    if refusal is not None:
        raise ValueError(f"AGUI_SCOPE_FIXED {refusal}.")
    scope = Scope(settings.scope_fixed)

    async def fixed(request: Request) -> Scope:
        return scope

    return fixed


def _header(settings: Settings) -> Resolver:
    """Take the scope from a header, but only if the connection itself comes from a trusted proxy.

    The peer must be the real one: run the server with its own proxy-header handling off, or `X-Forwarded-For`
    replaces the address that is judged here.
    """
    networks = _networks(settings.trusted_proxies)
    name = settings.scope_header

    async def header(request: Request) -> Scope:
        if not _is_within(request.client.host if request.client else "", networks):
            raise HTTPException(status.HTTP_403_FORBIDDEN, "Requests are taken from trusted proxies only.")
        values = request.headers.getlist(name)
        if len(values) != 1:
            problem = "is repeated" if values else "is missing"
            raise HTTPException(status.HTTP_401_UNAUTHORIZED, f"The header {name} {problem}.")
        refusal = _why_not_a_scope(values[0], settings.scope_length_max)
        if refusal is not None:
            raise HTTPException(status.HTTP_401_UNAUTHORIZED, f"The header {name} {refusal}.")
        return Scope(values[0])

    return header


def _why_not_a_scope(value: str, length_max: int) -> str | None:
    """Say what keeps a text from being a scope, or None.

    Two scopes must never look alike or be folded into one, so nothing outside printable ASCII; and proxies join
    repeated headers with a comma, so no comma.
    """
    if not value.strip():
        return "is empty"
    if len(value) > length_max:
        return f"is longer than {length_max} characters"
    if not all("!" <= character <= "~" and character != "," for character in value):
        return "may hold printable ASCII characters only, without spaces and commas"
    return None


def _networks(listed: str) -> tuple[_Network, ...]:
    try:
        networks = tuple(ip_network(each.strip()) for each in listed.split(",") if each.strip())
    except ValueError as error:
        raise ValueError(f"AGUI_TRUSTED_PROXIES: {error}.") from error
    if not networks:
        raise ValueError("AGUI_TRUSTED_PROXIES names no network.")
    v4 = list(collapse_addresses(each for each in networks if isinstance(each, IPv4Network)))
    v6 = list(collapse_addresses(each for each in networks if isinstance(each, IPv6Network)))
    if any(network.prefixlen == 0 for network in v4) or any(network.prefixlen == 0 for network in v6):
        raise ValueError("AGUI_TRUSTED_PROXIES trusts every address: then anyone could choose a scope.")
    return networks


def _is_within(host: str, networks: Sequence[_Network]) -> bool:
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        return False
    # A socket that takes both families shows an IPv4 peer as ::ffff:a.b.c.d.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)
