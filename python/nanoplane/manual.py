"""The manual page, generated from the help of the commands."""

from collections.abc import Iterator
from typing import Any

import typer.main

from nanoplane import cli, simulator


def page() -> str:
    """Return nanoplane(1), in roff."""
    top = typer.main.get_command(cli.app)
    version, _, _ = simulator.version().partition("+")
    lines = [
        f'.TH NANOPLANE 1 "" "nanoplane {version}" "User Commands"',
        ".SH NAME",
        r"nanoplane \- " + _text(_sentence(top.help or "")),
        ".SH SYNOPSIS",
        r".B nanoplane",
        r".I COMMAND",
        r"[\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH OPTIONS",
        *_parameters(top, "nanoplane"),
        ".SH COMMANDS",
        *_commands(top, "nanoplane"),
        ".SH EXIT STATUS",
        *_list({
            "0": "The command succeeded.",
            "1": "It failed: a guest has crashed, a disk is full.",
            "2": "The request was wrong: a key, a value, a file or a name that cannot be used.",
            "130, 143": "Ctrl-C or SIGTERM has ended it.",
        }),
        ".SH ENVIRONMENT",
        *_list({"NANOPLANE_STORE": "The directory of results; default: .nanoplane/results."}),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _commands(group: Any, name: str) -> Iterator[str]:
    for key, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {key}")
            continue
        context = command.make_context(key, [], resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        yield rf".SS {_text(name)} {_text(key)} {_text(usage)}"
        yield from (line for part in command.help.split("\n\n") for line in (".PP", _text(part)))
        yield from _parameters(command, key)
        _, _, examples = (command.epilog or "").partition("Example:\n")
        if examples:
            yield from (".PP", "Example:", ".PP", ".nf", ".RS")
            yield from (_text(line.strip()) for line in examples.splitlines())
            yield from (".RE", ".fi")


def _parameters(command: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield from _list({record[0]: record[1]})


def _list(items: dict[str, str]) -> Iterator[str]:
    for tag, text in items.items():
        yield from (".TP", rf"\fB{_text(tag)}\fR", _text(text))


def _sentence(text: str) -> str:
    return text.split("\n")[0].rstrip(".")


def _text(text: str) -> str:
    """Escape roff's control characters, and put a paragraph on one line."""
    text = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    print(page(), end="")
