"""A certificate that is renewed while the daemon runs, as every few weeks by ACME clients."""

from __future__ import annotations

import ssl

from loguru import logger

from services.access.tls import Tls, given_tls
from tts_engine.errors import DuplexdError
from tts_engine.files import Stamp, stamp_of

#: how often the files are looked at, seconds
LOOK_EVERY_S = 30


class Renewal:
    """What TLS is served with; new connections get the certificate that its files hold.

    Parameters:
        tls: the files.

    Raises:
        OSError: the files cannot be used.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._stamp = self._look()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(tls.certificate, tls.key)

    async def look(self) -> None:
        """Takes the certificate over if it has changed. What cannot be used is told once, and the
        one before stays.
        """
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            renewed = given_tls(self._tls.certificate, self._tls.key)
            self.context.load_cert_chain(renewed.certificate, renewed.key)
        except (DuplexdError, OSError) as error:
            logger.error("the new certificate cannot be used, the one before stays: {}", error)
        else:
            logger.info("new connections get the certificate that was renewed")

    def _look(self) -> tuple[Stamp | None, Stamp | None]:
        return stamp_of(self._tls.certificate), stamp_of(self._tls.key)
