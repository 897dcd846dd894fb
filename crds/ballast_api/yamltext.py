"""YAML as kubectl reads it, for files with our objects and for what is printed for others to read.

PyYAML follows YAML 1.1, where `1e-3` without a dot is text; kubectl takes it for a number. Read by PyYAML alone, a
decimal without quotes passes here and is refused by the API server, and one with quotes loses them when written.
"""

import re
from typing import Any

import yaml

_NUMBER = re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$")
_FIRST = list("-+0123456789")


class _Loader(yaml.SafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        """No anchors: they are allowed, but nobody expects them."""
        return True


for _part in (_Loader, _Dumper):
    _part.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, _FIRST)


def load_all(text: str) -> list[Any]:
    """Every document of a text that is not empty. Raises yaml.YAMLError with line and column."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]


def dump(value: Any) -> str:
    """One document, members in the order in which they were made."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)
