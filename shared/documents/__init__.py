"""What job specs and catalog documents have in common: field types with their limits, and errors that name the place.

`fields` holds the types (names, paths, durations, …), `parsing` turns a JSON value into a model or into violations.
"""

from shared.documents.fields import Document
from shared.documents.parsing import accepts, must_parse, parse

__all__ = ["Document", "accepts", "must_parse", "parse"]
