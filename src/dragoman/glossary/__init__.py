"""The words of a tenant: terms to hear, and translations to force.

`GlossaryStore` keeps them in the database. `Glossaries` is the copy that an instance reads while it
assigns jobs; it follows what other instances change.
"""

from dragoman.glossary.glossaries import Glossaries
from dragoman.glossary.store import GlossaryStore, StoredEntry
from dragoman.glossary.terms import Entry, GlossaryRules, TenantGlossary, check_entry

__all__ = [
    "Entry",
    "Glossaries",
    "GlossaryRules",
    "GlossaryStore",
    "StoredEntry",
    "TenantGlossary",
    "check_entry",
]
