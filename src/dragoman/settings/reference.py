"""The reference page of all settings, made from their definitions.

``python -m dragoman.settings.reference`` prints it; it is kept as docs/reference/settings.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dragoman.settings.kinds import as_toml
from dragoman.settings.load import OTHER_VARIABLES
from dragoman.settings.tree import KEYS, SECTIONS, Key

_INTRODUCTION = """\
# Settings

Settings come from four places. A later place wins over an earlier one:

1. the defaults below,
2. a TOML file, named by `--config` or by the variable `DRAGOMAN_CONFIG`; commands read no file
   that is not named,
3. environment variables: `DRAGOMAN_`, then the key in capitals with `__` between levels,
4. the flags of a command, such as `--port`.

`dragoman config show` lists the value of every key and where it came from. `dragoman config
check FILE` checks a file. Both refuse unknown keys, values of the wrong type, impossible values
and settings that contradict each other.

In a file, put text in quotes, and numbers without. In the environment, write lists as `a,b` or as
JSON, and tables as JSON:

```toml
[server]
port = 9000
allowed_origins = ["https://talk.example.org"]

[scheduler.job_timeout]
ack_seconds = 2.5

[scheduler.pools]
tenant_cells = { acme = [0, 1] }
```

```sh
export DRAGOMAN_SERVER__PORT=9000
export DRAGOMAN_SERVER__ALLOWED_ORIGINS=https://talk.example.org
export DRAGOMAN_SCHEDULER__JOB_TIMEOUT__ACK_SECONDS=2.5
export DRAGOMAN_SCHEDULER__POOLS__TENANT_CELLS='{"acme": [0, 1]}'
```
"""

_OTHER_VARIABLES_HEADING = """\
## Other variables

These variables begin with `DRAGOMAN_` and are not settings. Dragoman refuses any other unknown
`DRAGOMAN_` variable, except for those that Kubernetes and Docker set for a service named dragoman.

| variable | meaning |
| --- | --- |"""


def _row(key: Key) -> str:
    return f"| `{key.leaf}` | `{as_toml(key.default)}` | {key.meaning} | `{key.variable}` |"


def _section(name: str) -> Iterator[str]:
    keys = [key for key in KEYS.values() if key.section == name]
    yield f"## `[{name}]`\n\n{SECTIONS[name].__doc__}\n"
    yield "| key | default | meaning | environment |\n| --- | --- | --- | --- |"
    yield from map(_row, keys)
    yield ""


def reference() -> str:
    """The page as Markdown."""
    lines = [_INTRODUCTION]
    for name in SECTIONS:
        if name:
            lines += _section(name)
    lines.append(_OTHER_VARIABLES_HEADING)
    lines += [f"| `{variable}` | {meaning} |" for variable, meaning in OTHER_VARIABLES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
