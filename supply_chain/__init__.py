"""What this project takes from others: which packages, under which licences, with which weaknesses.

``make audit``, ``make sbom`` and ``docs/reference/licences.md`` come from here.
"""
