"""Docstrings under the fields of a class, as editors show them. They are read from the source when they are asked for:
only schemas and reference pages need them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def read_field_docs(cls: type) -> dict[str, str]:
    """Return the docstring under each field that the class itself declares; nothing where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                docs[name] = " ".join(inspect.cleandoc(doc).split())
    return docs
