"""Put the root's documents on the site with working links. A link to a file that only the repository has becomes a name."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
IN_ROOT = {"README.md": "index.md", "LICENSE": "LICENSE"}
IN_ROOT |= {f"{name.upper()}.md": f"{name}.md" for name in ("contributing", "security", "changelog")}
"""Documents beside `docs/`, and what the site calls them."""
_FROM_ROOT = {page: name for name, page in IN_ROOT.items()}
_CODE_OR_LINK = re.compile(
    r"(?P<code>^ *```.*?^ *```|`[^`\n]*`(?!\]))|(?P<label>!?\[[^\]]*\])\((?P<target>(?![a-z]+:|#)[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for name, page in IN_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    return relinked(markdown, page.file.src_uri)


def relinked(markdown: str, page: str) -> str:
    return _CODE_OR_LINK.sub(lambda found: found.group() if found["code"] else _link(found, page), markdown)


def _link(found: re.Match[str], page: str) -> str:
    target, mark, anchor = found["target"].partition("#")
    source = _FROM_ROOT.get(page, f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path.startswith("docs/"):
        on_site = path.removeprefix("docs/")
    elif path in IN_ROOT:
        on_site = IN_ROOT[path]
    elif (ROOT / path).exists() and not path.startswith(".."):
        return found["label"].strip("[]")
    else:
        return found.group()  # mkdocs says that there is no such page
    return f"{found['label']}({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{mark}{anchor})"
