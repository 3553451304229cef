"""How Xiaozhi devices get in, judged for `doctor`."""

from __future__ import annotations

from pipeline.config_schema import Config
from pipeline.doctor_types import Check, Facts
from services.access.hosts import host_port, is_loopback, plain, reached_at

_PUBLIC = "Let a proxy with a public certificate end TLS, or serve without: docs/xiaozhi.md."


def devices(config: Config, facts: Facts) -> Check:
    """Whether a board would find the daemon, and how many know the way."""
    xiaozhi, server, fact = config.xiaozhi, config.server, facts.devices
    if not xiaozhi.enabled:
        return Check(name="devices", status="skip", detail="xiaozhi.enabled is off")
    if fact.error:
        return Check(name="devices", status="fail", detail=fact.error, fix=fact.fix)
    waiting = f", {fact.waiting} wait: run.py devices list" if fact.waiting else ""
    known = f"{fact.known} may connect{waiting}"
    if xiaozhi.trusted_proxies:
        detail = f"the OTA address is the proxy's, with /xiaozhi/ota/; {known}"
        return Check(name="devices", status="ok", detail=detail)
    if is_loopback(plain(server.host)):
        detail = "programs of this machine alone; boards need --host 0.0.0.0"
        return Check(name="devices", status="ok", detail=detail)
    scheme = "http" if server.tls == "off" else "https"
    host = next(iter(reached_at(server.host, lambda: facts.addresses)), "localhost")
    address = f"{scheme}://{host_port(host, server.port or 'PORT')}/xiaozhi/ota/"
    if server.tls == "auto":
        detail = f"boards trust no certificate that was made here, at {address}; {known}"
        return Check(name="devices", status="warn", detail=detail, fix=_PUBLIC)
    detail = f"their OTA address is {address}; {known}"
    return Check(name="devices", status="ok", detail=detail)
