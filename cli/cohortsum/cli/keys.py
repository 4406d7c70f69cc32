"""`cohortsum key`: an identity for a person or a daemon, and the request to be admitted with it."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cohortsum.cli.consoles import messages, output
from cohortsum.crypto.fingerprint import key_words, phrase
from cohortsum.node.files import make_key, make_sealing_key, read_key, read_sealing_key, write_new
from cohortsum.study.definition.consortium import SEAL_PREFIX, RoleName, format_key, write_request

app = typer.Typer(no_args_is_help=True, help="Make identity keys and requests to be admitted.")


def say(text: str) -> None:
    """Write a sentence for people to standard error, as it is."""
    messages().print(text, markup=False)


def show_key(public: bytes) -> None:
    """Write a public key and its words to standard output."""
    output().print(
        f"public key   {format_key(public)}\nfingerprint  {phrase(key_words(public))}", markup=False
    )


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The private key's file; must not exist.", metavar="FILE")],
    public: Annotated[Path | None, typer.Option(help="Write the public key to this file as well.")] = None,
) -> None:
    """Make an Ed25519 identity key, readable by this account only."""
    key = make_key(file)
    if public is not None:
        write_new(public, key.public.hex().encode() + b"\n")
    show_key(key.public)
    say(
        f"\n{file} is secret: back it up where only you can read it, and never send it."
        f"\nnext: cohortsum key request {shlex.quote(str(file))} --id ID --role ROLE --name NAME --organisation NAME"
    )


@app.command()
def seal(
    file: Annotated[Path, typer.Argument(help="The private key's file; must not exist.", metavar="FILE")],
) -> None:
    """Make an auditor's sealing key: what the sealed part of proof bundles is encrypted to."""
    key = make_sealing_key(file)
    output().print(f"sealing key  {SEAL_PREFIX}{key.public.hex()}", markup=False)
    say(
        f"\n{file} is secret: whoever has it reads the opened sums of the consortium. Back it up where only you can read it."
        f"\nnext: cohortsum key request IDENTITY_KEY --role auditor --seal {shlex.quote(str(file))} --id ID --name NAME "
        "--organisation NAME"
    )


@app.command()
def request(
    key: Annotated[Path, typer.Argument(help="The private key's file.", metavar="FILE")],
    identity: Annotated[str, typer.Option("--id", help="The id wanted in the roster.")],
    role: Annotated[RoleName, typer.Option(help="What the identity is to do.")],
    name: Annotated[str, typer.Option(help="A name for people.")],
    organisation: Annotated[str, typer.Option(help="Whose identity it is.")],
    out: Annotated[Path, typer.Option(help="The request's file; must not exist.")] = Path("request.yaml"),
    seal_file: Annotated[
        Path | None,
        typer.Option("--seal", help="An auditor's private sealing key; its public half is asked for."),
    ] = None,
) -> None:
    """Write a signed request to be admitted to a consortium; a node has one from `cohortsum node init`."""
    held = read_key(key)
    sealing = b"" if seal_file is None else read_sealing_key(seal_file).public
    write_new(out, write_request(identity, role, name, organisation, held, sealing))
    show_key(held.public)
    say(
        f"\nnext: send {out} to the operator, and read them the fingerprint by phone. They run"
        f"\n  cohortsum coordinator admit FOLDER {out.name} --role {role}"
    )
