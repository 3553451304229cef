"""How clients get in, judged for `doctor`: port, the microphone's origin, API keys, certificate."""

from __future__ import annotations

from datetime import timedelta

from pipeline.config_server import Server
from pipeline.doctor_types import CertificateFact, Check, Facts, KeysFact, Running
from services.access.hosts import host_port, is_loopback, is_wildcard, plain, reached_at

#: a certificate that ends so soon is worth a word
_SOON = timedelta(days=14)
_TLS = "Run `run.py serve --tls auto`, with your other options."


def port(server: Server, facts: Facts) -> Check:
    """Whether the daemon could have it, or has it and is as the configuration wants it."""
    fact, where = facts.port, host_port(server.host, server.port)
    if fact.state == "free":
        return Check(name="port", status="ok", detail=f"{where} is free")
    if fact.daemon is not None:
        return _running(server, facts, fact.daemon)
    other = f"choose another: --set server.port={server.port % 65_535 + 1}."
    own = ", ".join((*facts.addresses, "127.0.0.1"))
    fixes = {
        "taken": f"End it, or {other}",
        "foreign": f"Give --host an address of this machine ({own}), or 0.0.0.0 for all of them.",
        "forbidden": "Choose one above 1023: --set server.port=8080.",
        "unknown": f"Look again, or {other}",
    }
    detail = f"{where}: {fact.error or 'taken by another program'}"
    return Check(name="port", status="fail", detail=detail, fix=fixes[fact.state])


def _running(server: Server, facts: Facts, daemon: Running) -> Check:
    if not (differs := _differences(server, facts)):
        where = host_port(server.host, server.port)
        return Check(name="port", status="ok", detail=f"a duplexd is running at {where}")
    at = facts.port.at
    return Check(
        name="port",
        status="warn",
        detail=f"a duplexd is running at {at}, but {' and '.join(differs)}",
        fix="End it and run `run.py serve` with these options, or take it as it is: open "
        f"{'https' if daemon.secure else 'http'}://{at}/",
    )


def _differences(server: Server, facts: Facts) -> list[str]:
    """In what a running daemon is not the configured one."""
    daemon, differs = facts.port.daemon, list[str]()
    if daemon is None:
        return differs
    if daemon.secure != (server.tls != "off"):
        differs.append("speaks TLS" if daemon.secure else "speaks no TLS")
    if daemon.locked != facts.keys.required:
        differs.append("asks for a key" if daemon.locked else "asks for no key")
    if facts.port.deaf:
        differs.append(f"does not answer at {', '.join(facts.port.deaf)}")
    return differs


def microphone(server: Server, facts: Facts) -> Check:
    """Browsers give the microphone to pages of this machine, and to those that come over TLS."""
    if facts.port.state == "foreign" or _differences(server, facts):
        detail = "waits until this can be served: see port"
        return Check(name="microphone", status="skip", detail=detail)
    scheme = "http" if server.tls == "off" else "https"
    pages = [_page(scheme, host, server) for host in _reached_at(server, facts)]
    if is_loopback(plain(server.host)):
        detail = f"open {pages[0]} in a browser of this machine"
        return Check(name="microphone", status="ok", detail=detail)
    if server.tls != "off":
        return Check(name="microphone", status="ok", detail=f"open {' or '.join(pages)}")
    here = (
        is_wildcard(server.host) and f"; on this machine open {_page('http', 'localhost', server)}"
    )
    return Check(
        name="microphone",
        status="warn",
        detail=f"without TLS no browser gives it to {' or '.join(pages)}{here or ''}",
        fix=_TLS,
    )


def keys(server: Server, fact: KeysFact) -> Check:
    """Who is let in."""
    if fact.error:
        status = "fail" if fact.required else "warn"
        return Check(name="keys", status=status, detail=fact.error, fix=fact.fix)
    count = f"{fact.count or 'no'} key{'' if fact.count == 1 else 's'} in {fact.file}"
    if fact.environment:
        count += " and one in DUPLEXD_API_KEY"
    asked = "one is asked for" if fact.required else f"none is asked for on {server.host}"
    made = fact.required and not (fact.count or fact.environment)
    first = "; `run.py serve` makes the first and shows it once" if made else ""
    return Check(name="keys", status="ok", detail=f"{asked}; {count}{first}")


def certificate(server: Server, facts: Facts) -> Check:
    """Whether the certificate is good, for long, and for this machine."""
    fact = facts.certificate
    if fact is None:
        return Check(name="certificate", status="skip", detail="none: server.tls is off")
    if fact.error:
        return Check(name="certificate", status="fail", detail=fact.error, fix=fact.fix)
    covers = ", ".join((*fact.names, *fact.addresses)) or "no name and no address"
    detail = f"{fact.file}, valid until {fact.ends:%Y-%m-%d}, for {covers}"
    problem, fix = _problem(server, fact, facts)
    if problem:
        return Check(name="certificate", status="warn", detail=f"{detail}; {problem}", fix=fix)
    missing = [host for host in _reached_at(server, facts) if not _covered(host, fact)]
    if missing:
        detail += f"; not for {', '.join(missing)}"
    return Check(name="certificate", status="ok", detail=detail)


def _problem(server: Server, fact: CertificateFact, facts: Facts) -> tuple[str, str]:
    """What is wrong with a certificate that can be used, and what mends it."""
    unknown = [
        name
        for name in fact.names
        if not ("*" in name or is_loopback(plain(name)) or plain(name) in facts.names)
    ]
    reached = (*_reached_at(server, facts), *facts.names)
    if is_loopback(plain(server.host)):
        reached = (*reached, "localhost")
    if unknown:
        hosts = ",".join((*server.allowed_hosts, *unknown))
        return (
            f"the daemon does not answer to {', '.join(unknown)}",
            f"Run `run.py serve --set 'server.allowed_hosts=[{hosts}]'`, with your other options.",
        )
    if not any(_covered(host, fact) for host in reached):
        return (
            "clients find this machine by none of these",
            "Use a certificate that names it, or run `run.py serve --tls auto`.",
        )
    if fact.ends - facts.now < _SOON:
        return "that is soon", "Renew it, then start the daemon again."
    return "", ""


def _covered(host: str, fact: CertificateFact) -> bool:
    names = {plain(name) for name in fact.names}
    parent = f"*.{plain(host).partition('.')[2]}"
    return host in fact.addresses or plain(host) in names or parent in names


def _reached_at(server: Server, facts: Facts) -> tuple[str, ...]:
    """The hosts by which clients find the daemon."""
    return reached_at(server.host, lambda: facts.addresses) or ("localhost",)


def _page(scheme: str, host: str, server: Server) -> str:
    return f"{scheme}://{host_port(host, server.port or 'PORT')}/"
