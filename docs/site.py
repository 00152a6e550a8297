"""What the site does with links that leave `docs/`: mkdocs knows the pages alone.

A file of the repository that a page links to, such as an example, is put into the site; a directory
is named without a link.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Put the files of the repository that pages link to into the site."""
    root = Path(config.docs_dir).parent
    for page in list(files.documentation_pages()):
        for _, target, _ in _LINK.findall(page.content_string):
            path = _outside(page.src_uri, target)
            if path is None or not (root / path).is_file():
                continue
            # As text, which browsers show: they would offer a TOML or C file for download.
            name = _name(path)
            if files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to files of the repository lead to their copies in the site."""
    root = Path(config.docs_dir).parent

    def linked(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        path = _outside(page.file.src_uri, target)
        if path is None:
            is_page = (root / "docs" / posixpath.dirname(page.file.src_uri) / target).is_file()
            return match[0] if is_page else text
        if not (root / path).is_file():
            return text
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"[{text}]({posixpath.relpath(_name(path), here)})"

    return _LINK.sub(linked, markdown)


def _name(path: str) -> str:
    return f"repository/{path}.txt"


def _outside(page: str, target: str) -> str | None:
    """Return the path in the repository of what a page links to, if it is not in `docs/`."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path
