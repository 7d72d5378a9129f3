"""A mail server of other people's making (aiosmtpd), for the tests of mails: TLS from the start or by STARTTLS, a password, and
addresses that stand for what mail servers do. Prints its port, keeps each mail in a folder, ends when its input closes.

grey@    is told to come back, once
gone@    is no mailbox here
full@    is refused for now after the mail was sent
block@   is refused for good, for our sake, until the file `unblocked` lies in the folder
big@     is refused for good after the mail was sent, so too
hang@    takes the mail and never says so
"""

import asyncio
import itertools
import os
import pathlib
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

FOLDER, CERTIFICATE, MODE = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
NUMBERS = itertools.count()
SEEN = set()


class Box:
    async def handle_RCPT(self, server, session, envelope, address, options):
        local = address.split("@")[0]
        if local == "gone":
            return "550 5.1.1 no such mailbox"
        if local == "block" and not (FOLDER / "unblocked").exists():
            return "550 5.7.1 your network is on a list"
        if local == "grey" and address not in SEEN:
            SEEN.add(address)
            return "451 4.7.1 greylisted, come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        local = envelope.rcpt_tos[0].split("@")[0]
        if local == "full":
            return "452 4.2.2 mailbox full"
        if local == "big" and not (FOLDER / "unblocked").exists():
            return "554 transaction failed"
        how = "tls" if session.ssl is not None or MODE == "tls" else "plain"
        part = FOLDER / f"{next(NUMBERS):04}.part"
        part.write_bytes(
            f"X-How: {how} {'auth' if session.authenticated else 'open'}\r\n".encode() + envelope.original_content
        )
        part.rename(part.with_suffix(".eml"))
        if local == "hang":
            await asyncio.sleep(3600)
        return "250 OK"


def check(server, session, envelope, mechanism, data):
    # Not handled: the server itself says 535.
    return AuthResult(success=data.login == b"shop" and data.password == b"secret pass", handled=False)


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(f"{CERTIFICATE}/server.pem", f"{CERTIFICATE}/server.key")


async def serve():
    common = dict(authenticator=check, auth_required=True, hostname="localhost")
    if MODE == "tls":
        make, wrapped = lambda: SMTP(Box(), auth_require_tls=False, **common), context
    else:
        make, wrapped = lambda: SMTP(Box(), tls_context=context, require_starttls=True, **common), None
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=wrapped)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(serve())
os._exit(0)
