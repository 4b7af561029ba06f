"""A scope is found or the request is refused, through a real app: there is nothing in between."""

from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from app.scope import scope_resolver
from app.settings import Settings

PROXY = "10.1.2.3"
HEADER = "x-agui-scope"


def app_of(settings: Settings) -> FastAPI:
    app = FastAPI()
    resolve = scope_resolver(settings)

    @app.post("/run")
    async def run(scope: Annotated[str, Depends(resolve)]) -> dict[str, str]:
        return {"scope": scope}

    return app


def header_settings(**changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "environment": "development",
        "scope": "header",
        "trusted_proxies": "10.0.0.0/8, 192.168.7.7, fd00::/8",
    }
    return Settings(**(fields | changes))


async def post(settings: Settings, headers: list[tuple[bytes, bytes]], peer: str | None = PROXY) -> httpx.Response:
    transport = httpx.ASGITransport(app_of(settings), client=(peer, 40_000) if peer is not None else None)  # type: ignore[arg-type]  # ASGI allows no client
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        body = {"threadId": "t-of-tenant-a", "scope": "tenant-a"}
        return await client.post("/run", json=body, headers=headers)


def scope_header(value: str) -> list[tuple[bytes, bytes]]:
    return [(HEADER.encode(), value.encode())]


@pytest.mark.parametrize("value", ["tenant-a", "user@example.org", "a", "~!", "x" * 256, "urn:org:7/team:9"])
async def test_the_header_of_a_trusted_proxy_is_the_scope(value: str) -> None:
    response = await post(header_settings(), scope_header(value))

    assert (response.status_code, response.json()) == (200, {"scope": value})


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        pytest.param([], "is missing", id="none"),
        pytest.param([(b"x-other-scope", b"tenant-a")], "is missing", id="another header"),
        pytest.param(scope_header(""), "is empty", id="empty"),
        pytest.param(scope_header("   "), "is empty", id="blanks"),
        pytest.param(scope_header("\t"), "is empty", id="tab"),
        pytest.param(scope_header("x" * 257), "is longer than 256 characters", id="one too long"),
        pytest.param(scope_header("x" * 100_000), "is longer than 256 characters", id="very long"),
        pytest.param(scope_header("tenant-a") * 2, "is repeated", id="repeated, equal"),
        pytest.param(scope_header("tenant-a") + scope_header("tenant-b"), "is repeated", id="repeated, different"),
        pytest.param(scope_header("tenant-a,tenant-b"), "printable ASCII", id="a list"),
        pytest.param(scope_header("tenant-a, tenant-b"), "printable ASCII", id="a list with a space"),
        pytest.param(scope_header("tenant a"), "printable ASCII", id="space inside"),
        pytest.param(scope_header("tenant-а"), "printable ASCII", id="cyrillic look-alike"),  # noqa: RUF001  # the look-alike is the point
        pytest.param(scope_header("tenánt-a"), "printable ASCII", id="composed"),
        pytest.param(scope_header("tena\u0301nt-a"), "printable ASCII", id="decomposed"),
        pytest.param(scope_header("ｔenant-a"), "printable ASCII", id="full width"),  # noqa: RUF001  # the look-alike is the point
        pytest.param(scope_header("tenant-a\u200b"), "printable ASCII", id="zero width"),
        pytest.param(scope_header("tenant-a\x00"), "printable ASCII", id="null"),
        pytest.param(scope_header("tenant-a\x7f"), "printable ASCII", id="delete"),
        pytest.param(scope_header("\x1b[31mtenant-a"), "printable ASCII", id="escape"),
        pytest.param([(HEADER.encode(), b"tenant-\xff")], "printable ASCII", id="not utf-8"),
    ],
)
async def test_anything_else_in_the_header_is_refused(headers: list[tuple[bytes, bytes]], sentence: str) -> None:
    response = await post(header_settings(), headers)

    assert response.status_code == 401
    assert sentence in response.json()["detail"]
    assert HEADER in response.json()["detail"]
    assert "tenant" not in response.json()["detail"]


@pytest.mark.parametrize("peer", [PROXY, "192.168.7.7", "fd00::5", "::ffff:10.1.2.3"])
async def test_an_address_inside_a_listed_network_is_trusted(peer: str) -> None:
    assert (await post(header_settings(), scope_header("tenant-a"), peer)).status_code == 200


@pytest.mark.parametrize("peer", ["11.1.2.3", "192.168.7.8", "fe80::5", "::ffff:11.1.2.3", "not-an-address", "", None])
@pytest.mark.parametrize("headers", [[], scope_header("tenant-a"), scope_header("")])
async def test_the_header_of_anyone_else_is_not_even_read(peer: str | None, headers: list[tuple[bytes, bytes]]) -> None:
    forwarded = [(b"x-forwarded-for", PROXY.encode()), (b"forwarded", b"for=" + PROXY.encode())]
    response = await post(header_settings(), headers + forwarded, peer)

    assert response.status_code == 403
    assert response.json() == {"detail": "Requests are taken from trusted proxies only."}


async def test_the_header_and_its_longest_value_are_settings() -> None:
    settings = header_settings(scope_header="x-tenant", scope_length_max=4)

    assert (await post(settings, [(b"X-Tenant", b"abcd")])).json() == {"scope": "abcd"}
    assert (await post(settings, [(b"x-tenant", b"abcde")])).status_code == 401
    assert (await post(settings, scope_header("abcd"))).status_code == 401


async def test_the_fixed_scope_is_one_constant_whoever_asks() -> None:
    settings = header_settings(scope="fixed", scope_fixed="local")

    for peer, headers in ((PROXY, scope_header("tenant-a")), ("203.0.113.9", []), (None, scope_header(""))):
        assert (await post(settings, headers, peer)).json() == {"scope": "local"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trusted_proxies": "10.0.0.0/8, nonsense"}, "AGUI_TRUSTED_PROXIES"),
        ({"trusted_proxies": "10.0.0.1/8"}, "AGUI_TRUSTED_PROXIES"),
        ({"trusted_proxies": ","}, "AGUI_TRUSTED_PROXIES"),
        ({"trusted_proxies": "0.0.0.0/0"}, "AGUI_TRUSTED_PROXIES trusts every address"),
        ({"trusted_proxies": "0.0.0.0/1,128.0.0.0/1"}, "AGUI_TRUSTED_PROXIES trusts every address"),
        ({"trusted_proxies": "10.0.0.0/8, ::/0"}, "AGUI_TRUSTED_PROXIES trusts every address"),
        ({"scope": "fixed", "scope_fixed": ""}, "AGUI_SCOPE_FIXED is empty"),
        ({"scope": "fixed", "scope_fixed": "two words"}, "AGUI_SCOPE_FIXED may hold"),
        ({"scope": "fixed", "scope_fixed": "long", "scope_length_max": 3}, "AGUI_SCOPE_FIXED is longer"),
    ],
)
def test_a_resolver_that_could_not_be_right_is_not_built(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        scope_resolver(header_settings(**changes))
