"""YAML text to a `Tree`, with its ``${NAME}`` and ``${file:PATH}`` substituted, and back.

A scalar stays as it was written until a setting says what it expects, so nothing is guessed: ``on``
is no boolean, ``1:30`` is no number, ``0123`` keeps its zero. PyYAML's own constructors read YAML
1.1, keep the last of two equal keys and follow tags and aliases anywhere; in a file that decides
what is deleted each of these is an error instead, and so are anchors.

What comes from outside is text, never YAML, and is not searched again: a password may hold
any character. It is never shown. ``$${`` is a plain ``${``. A team's file could take the daemon's
secrets out, to an address of its own: it has no ``${NAME}``, and ``${file:PATH}`` below one folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from retentiond.config.files import ConfigFiles
from retentiond.errors import ConfigError

# A configuration is five levels deep. PyYAML's C composer recurses without a limit and takes
# the process down (SIGSEGV) on a file of brackets, so depth is measured on events before it.
_MOST_LEVELS = 50

MOST_VALUES = 250_000
"""Of a team's file, its keys included: 20,000 entries, which take some seconds."""

_PLAIN, _UNTAGGED = "plain", "untagged"

_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of the file. ``plain``: it may be read as a number, a boolean or null."""

    text: str
    plain: bool = True  # written without quotes, or wholly substituted
    substituted: bool = False  # holds text from outside the file: maybe a secret, never shown
    unknown: bool = False  # refers to such text, and nobody asked for it: as it is written

    @property
    def is_null(self) -> bool:
        literal = self.plain and not self.substituted
        return literal and self.text in {"", "~", "null", "Null", "NULL"}


class Unknown(str):
    """A text that refers to one from outside the file, and nobody asked for that: as it is written,
    as in ``${OWNER}``."""

    __slots__ = ()


Tree: TypeAlias = "Scalar | list[Tree] | dict[str, Tree]"


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc] # C or Python
    """Tells plain scalars from quoted ones, and both from nodes with a tag of their own."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _UNTAGGED


def read_document(text: str, most_values: int | None = None) -> Tree | None:
    """The file's tree, None where it holds nothing. Raises ConfigError with line or path."""
    root = _compose(text, most_values)
    return None if root is None else _tree(root, ())


def plain(tree: Tree | None) -> Any:
    """The tree with each value as the text that was written: 010 and 1:30 are no numbers."""
    match tree:
        case Scalar(text=text):
            return text
        case dict():
            return {key: plain(value) for key, value in tree.items()}
        case list():
            return [plain(value) for value in tree]
        case _:
            return None


def _compose(text: str, most_values: int | None) -> yaml.Node | None:
    if bad := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise ConfigError(
            f"line {line}, column {column}: the character {bad.group()!a} can't stand in YAML; "
            "remove it, or write it as an escape between double quotes"
        )
    try:
        _refuse_depth_and_aliases(text, most_values)
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as exc:
        problem = ", ".join(part for part in (exc.context, exc.problem) if part)
        where = _place(exc.problem_mark or exc.context_mark)
        # From nothing: the parser's own error quotes the line, and so would a traceback.
        raise ConfigError(f"{where}: expected valid YAML ({problem})") from None
    return root


def _refuse_depth_and_aliases(text: str, most_values: int | None) -> None:
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        values += isinstance(event, yaml.NodeEvent)
        if most_values is not None and values > most_values:
            raise ConfigError(
                f"{_place(event.start_mark)}: expected at most {most_values:,} keys and values in "
                "a policy file; a pattern is one entry for many topics"
            )
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise ConfigError(
                f"{_place(event.start_mark)}: anchors (&) and aliases (*) are not supported; write "
                "the value out, put what all topics share under defaults, or quote a text that "
                "starts with * or &"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_LEVELS:
            raise ConfigError(
                f"{_place(event.start_mark)}: expected at most {_MOST_LEVELS} nested levels"
            )


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _tree(node: yaml.Node, at: _Path) -> Tree:
    _refuse_tag(node, at)
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, plain=node.tag == _PLAIN)
    if not isinstance(node, yaml.MappingNode):
        return [_tree(child, (*at, index)) for index, child in enumerate(node.value)]
    mapping: dict[str, Tree] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        key, line = _key(key_node, at), key_node.start_mark.line + 1
        if key in mapping:
            raise ConfigError(
                f"this key is given twice, in lines {lines[key]} and {line}; keep one of them",
                path=dotted((*at, key)),
            )
        mapping[key], lines[key] = _tree(value_node, (*at, key)), line
    return mapping


def _key(node: yaml.Node, at: _Path) -> str:
    _refuse_tag(node, at)
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{_place(node.start_mark)}: expected a text as key", path=dotted(at))
    if node.tag == _PLAIN and node.value == "<<":
        raise ConfigError(
            "merge keys are not supported; write the settings out, or put what all topics share "
            "under defaults",
            path=dotted((*at, node.value)),
        )
    return str(node.value)


def _refuse_tag(node: yaml.Node, at: _Path) -> None:
    if node.tag not in (_PLAIN, _UNTAGGED):
        raise ConfigError(
            "expected a value without a YAML tag; quote a text that starts with !", path=dotted(at)
        )


_REFERENCE = re.compile(
    r"""
    (?P<escaped> \$\$\{ )
    | \$\{ (?: file: (?P<file> [^}]+ ) | (?P<name> [A-Za-z_][A-Za-z0-9_]* ) ) \}
    | (?P<malformed> \$\{ )
    """,
    re.VERBOSE,
)

_MOST_BYTES = 1 << 20  # of one file: a key or a certificate


CheckProperties = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class Outside:
    """What references are replaced from. ``environ`` None: neither variables nor files are asked
    for, and a value that refers to one is unknown. ``base_dir``: the folder that names of files
    are relative to. ``is_team``: it is about a team's file, and
    ``secrets`` is the one folder that its ``${file:…}`` may lead to, if it has one.
    ``check_properties`` raises ConfigError for properties that no Kafka client takes.
    ``readers_in_force``: what names of external readers stand for now."""

    environ: Mapping[str, str] | None
    files: ConfigFiles
    base_dir: Path
    check_properties: CheckProperties = lambda _properties: None
    readers_in_force: Mapping[str, object] = field(default_factory=dict)
    is_team: bool = False
    secrets: Path | None = None


def substitute(tree: Tree, outside: Outside, at: _Path = ()) -> Tree:
    """The tree with every reference replaced.

    Raises ConfigError with the path of the value whose variable is unset or whose file
    can't be read.
    """
    match tree:
        case dict():
            return {k: substitute(v, outside, (*at, k)) for k, v in tree.items()}
        case list():
            return [substitute(v, outside, (*at, i)) for i, v in enumerate(tree)]
        case Scalar(text=text) if "${" in text:
            try:
                return _substituted(tree, outside)
            except ConfigError as exc:
                raise ConfigError(exc.message, path=dotted(at)) from exc
        case _:
            return tree


def _substituted(scalar: Scalar, outside: Outside) -> Scalar:
    environ = outside.environ

    def replacement(reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "${"
        if reference["malformed"]:
            raise ConfigError("expected ${NAME} or ${file:PATH}; a plain ${ is written $${")
        path = outside.base_dir / (reference["file"] or "")
        if outside.is_team:
            path = _of_team(reference, outside)
        if environ is None:
            return reference.group()
        if reference["file"]:
            return _content(path, outside.files)
        if (name := reference["name"]) not in environ:
            raise ConfigError(f"expected the environment variable {name} to be set")
        return environ[name]

    references = list(_REFERENCE.finditer(scalar.text))
    replaced = [reference for reference in references if not reference["escaped"]]
    whole = len(replaced) == 1 and replaced[0].group() == scalar.text
    unknown = bool(replaced) and environ is None
    text = _REFERENCE.sub(replacement, scalar.text)
    return Scalar(
        scalar.text if unknown else text,
        plain=whole or (scalar.plain and not replaced),
        substituted=bool(replaced),
        unknown=unknown,
    )


def _of_team(reference: re.Match[str], outside: Outside) -> Path:
    """The file that a team's file refers to, from its own folder or from that of its secrets."""
    if outside.secrets is None or not reference["file"]:
        raise ConfigError(
            f"expected a value without {reference.group()}: a team's file takes no variable, and a "
            "${file:PATH} only below the folder that the main file names for it (policies: "
            "[{file: …, secrets: FOLDER}]); write the value out, or $${ for a plain ${"
        )
    inside = Path(outside.files.resolve(outside.secrets).real_path)
    for folder in (outside.base_dir, outside.secrets):
        path = folder / reference["file"]
        if inside in Path(outside.files.resolve(path).real_path).parents:
            return path
    raise ConfigError(
        f"expected a file below {str(outside.secrets)!r}, the folder of this file's secrets, not "
        f"{reference.group()}"
    )


def _content(path: Path, files: ConfigFiles) -> str:
    """The file's text less its last line break."""
    try:
        content = files.read(path, _MOST_BYTES + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL character in the path
        reason = getattr(exc, "strerror", None) or "not a path"
        raise ConfigError(f"can't read the file {str(path)!r} ({reason})") from exc
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"expected at most {_MOST_BYTES:,} bytes in the file {str(path)!r}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:  # its text would show the content
        raise ConfigError(f"expected UTF-8 text in the file {str(path)!r}") from None
    return text.removesuffix("\n").removesuffix("\r")


_LONGEST_ECHO = 60


def dotted(parts: Iterable[str | int]) -> str:
    """The path of a key as operators write it: ``topics[2].groups.exclude[1]``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            key = part if part and part.isprintable() else repr(part)
            path += f".{_shortened(key)}" if path else _shortened(key)
    return path


def shown(value: object) -> str:
    """A value as an error message may show it: on one line, short, and without secrets."""
    match value:
        case Scalar(substituted=True):
            words = "the substituted value"
        case Scalar() if value.is_null:
            words = "nothing"
        case Scalar(text=text, plain=True) if text.isprintable():
            words = text
        case Scalar(text=text):
            words = f"the text {text!r}"
        case Mapping():
            words = "a mapping"
        case list() | tuple():
            words = "a list"
        case _:
            words = repr(value)
    return _shortened(words)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"


def dumped(value: Any) -> str:
    """The YAML of a plain value, whose texts are taken literally when it is read."""
    return yaml.safe_dump(_literal(value), sort_keys=False, allow_unicode=True, width=100)


def dumped_text(text: str) -> str:
    """The YAML of one text, on one line; what can't be printed is escaped."""
    shows = text.isprintable()
    written = yaml.safe_dump(
        _literal(text),
        default_style="'" if shows else '"',
        allow_unicode=shows,
        width=sys.maxsize,
    )
    return str(written).rstrip("\n")


def _literal(value: Any) -> Any:
    """``${`` would be substituted when the file is read."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    if isinstance(value, dict):
        return {_literal(key): _literal(item) for key, item in value.items()}
    return value
