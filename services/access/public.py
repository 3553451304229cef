"""What the door shows to everybody; by it clients and commands know a duplexd, without the door."""

from __future__ import annotations

#: the authority's certificate, as a file and as a path: phones install what is called so
CA_PATH = "duplexd-ca.crt"
#: tells a duplexd from other servers that want a key
CHALLENGE = 'Bearer realm="duplexd"'
