"""``cardsign serve`` and ``cardsign tokens``."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cardsign.card.extensions import END_FORMS, read_end
from cardsign.cli import frame
from cardsign.cli.frame import Answer, Group, is_json, members, moment, show
from cardsign.cli.issuer import project_config
from cardsign.errors import UsageFault
from cardsign.files import create_private
from cardsign.times import minute

if TYPE_CHECKING:
    from cardsign.server.settings import ServerSettings
    from cardsign.server.tokens import Token

_SHOWN: Final = 12  # characters of a digest


@frame.command(example="cardsign serve public --bind 127.0.0.1:8080")
@click.argument("directory", required=False, type=frame.PATH, metavar="[DIR]")
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default="127.0.0.1:8080",
    help="Where to listen; port 0 is any free one.",
)
@click.option("--settings", "settings_file", type=frame.FILE, help="The server's settings.")
@click.option(
    "--token-file",
    type=frame.FILE,
    help="The digests of the bearer tokens that open the extended card; written by cardsign tokens "
    "create.",
)
def serve(
    directory: Path | None, bind: str, settings_file: Path | None, token_file: Path | None
) -> None:
    """Serve the publication in DIR, and follow it as it changes.

    Without DIR it serves the `publish` folder of cardsign.toml.

    DIR may also be a folder of publications, each named after its agent: every agent is below
    /agents/NAME, and /a2a/agents lists the cards of all.

    Public: the card at /.well-known/agent-card.json, the key set at /.well-known/jwks.json, the
    issuer's statements below /.well-known/cardsign/, /healthz and /readyz. With a bearer token:
    the extended card, by GET .../extendedAgentCard and by JSON-RPC GetExtendedAgentCard. The
    server holds no private key. Put TLS in front of it. With --json the address is printed on
    stdout.
    """
    from cardsign.server.run import serve as serve_publication

    published = directory or project_config().publish
    if published is None:
        hint = "Name the one that publish wrote: cardsign serve DIR"
        raise UsageFault("usage.conflict", "no publication directory is named", hint=hint)
    read = partial(_read_settings, settings_file, token_file)
    serve_publication(published, read, bind, as_json=is_json())


def _read_settings(path: Path | None, token_file: Path | None) -> ServerSettings:
    """Return the settings of a file, with the token file that the command names."""
    from cardsign.server.settings import ServerSettings, read_server_settings

    settings = ServerSettings() if path is None else read_server_settings(path)
    return settings.model_copy(update={"token_file": token_file} if token_file else {})


@click.group(cls=Group)
def tokens() -> None:
    """Make, list and revoke bearer tokens for extended cards; a server keeps their digests."""


_token_file = click.option(
    "--token-file",
    metavar="FILE",
    required=True,
    type=frame.PATH,
    help="The file of the tokens' digests, which the server reads.",
)


@tokens.command(example="cardsign tokens create --audience partners --token-file tokens")
@click.option("--audience", metavar="NAME", required=True, help="Whose extended card it opens.")
@_token_file
@click.option(
    "--expires",
    metavar="DATE",
    help=f"Until when it opens the card: {END_FORMS} [default: it never ends].",
)
@click.option(
    "-o",
    "--output",
    type=frame.FILE,
    help="Write the token to FILE, for you alone [default: print it].",
)
def create(audience: str, token_file: Path, expires: str | None, output: Path | None) -> None:
    """Make a token, and add its digest to the token file.

    The token is written or printed once, and kept nowhere else.
    """
    from cardsign.server.tokens import create_token, edit_tokens

    output = None if output == Path(frame.STDIO) else output
    token, line = create_token(audience, None if expires is None else read_end(expires, moment()))
    is_new = not token_file.exists()
    with edit_tokens(token_file) as lines:
        lines.append(f"{line}\n")
        if output is not None:
            create_private(output, f"{token}\n".encode())
    notes = [] if output is None else [f"wrote the token to {output}"]
    if is_new:
        command = f"cardsign serve DIR --token-file {shlex.quote(str(token_file))}"
        notes.append(f"made {token_file}, a new file; serve it: {command}")
    else:
        notes.append(f"added its digest to {token_file}; a running server takes it up at once")
    shown = {"token": token} if output is None else {"output": str(output)}
    show(Answer({**shown, "line": line}, [token] if output is None else [], notes))


@tokens.command("list", example="cardsign tokens list --token-file tokens")
@_token_file
def list_tokens(token_file: Path) -> None:
    """List the digest, audience and expiry of each token."""
    from cardsign.server.tokens import read_tokens

    tokens = read_tokens(token_file).values()
    view = [members(token, "digest audience expires") for token in tokens]
    show(Answer(view, map(_token_line, tokens)))


def _token_line(token: Token) -> str:
    until = f" until {minute(token.expires)}" if token.expires else ""
    ended = ", expired" if token.expires and token.expires <= moment() else ""
    return f"{token.digest[:_SHOWN]} {token.audience}{until}{ended}"


@tokens.command(example="cardsign tokens revoke 6f2a90c1 --token-file tokens")
@click.argument("token", metavar="TOKEN|DIGEST")
@_token_file
def revoke(token: str, token_file: Path) -> None:
    """Revoke a token: name it, or the beginning of its digest.

    A running server refuses it from the next request on.
    """
    from cardsign.server.tokens import edit_tokens, read_tokens, remove_token

    read_tokens(token_file)  # a misspelt file is no empty one
    with edit_tokens(token_file) as lines:
        digest = remove_token(lines, token, str(token_file))
    note = f"revoked {digest[:_SHOWN]} in {token_file}"
    show(Answer({"revoked": digest, "token_file": str(token_file)}, notes=[note]))
