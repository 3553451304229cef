"""Invariants: what is named as an address of this machine is reachable from others; the default
route's comes first; a machine without a network has none.
"""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from services.access import addresses
from services.access.addresses import own_addresses


def interface(*found: str) -> list[Any]:
    return [
        SimpleNamespace(
            family=socket.AF_INET6 if ":" in address else socket.AF_INET, address=address
        )
        for address in found
    ]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "lo": interface("127.0.0.1", "::1"),
        "eth0": interface("192.168.1.5", "fd00::5", "fe80::5%eth0", "169.254.3.3"),
        "br0": interface("10.0.0.1"),
        "old": interface("192.168.7.7"),
        "mac": [SimpleNamespace(family=psutil.AF_LINK, address="02:fc:00:00:00:01")],
    }
    states = {name: SimpleNamespace(isup=name != "old") for name in known}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: known)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: states)


def test_the_one_of_the_default_route_comes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(addresses, "_of_the_default_route", lambda: "192.168.1.5")
    assert own_addresses() == ["192.168.1.5", "10.0.0.1", "fd00::5"]
    monkeypatch.setattr(addresses, "_of_the_default_route", lambda: "")
    assert own_addresses() == ["10.0.0.1", "192.168.1.5", "fd00::5"]


def test_the_default_route_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(addresses, "_ELSEWHERE", ("127.0.0.1", 9))
    assert own_addresses()[0] == "10.0.0.1"


def test_without_a_route(monkeypatch: pytest.MonkeyPatch):
    class Cut(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Cut)
    assert own_addresses() == ["10.0.0.1", "192.168.1.5", "fd00::5"]


def test_without_a_network(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"lo": interface("127.0.0.1", "::1")})
    assert own_addresses() == []
