"""The columnar read side: a copy of results that answers filters, sorts and aggregates fast.

The database has the truth. A mirror can be thrown away and made anew at any time.
"""

from dragoman.lab.mirror.aggregating import grouped_aggregates
from dragoman.lab.mirror.following import Following, Stamp, forget_mirror
from dragoman.lab.mirror.interface import BadPattern, Mirror, MirrorAway, TooSlow
from dragoman.lab.mirror.opening import is_wanted, open_mirror
from dragoman.lab.mirror.patterns import check_patterns, searcher
from dragoman.lab.mirror.queries import Mirrored
from dragoman.lab.mirror.row_places import Places, columns_of, count_rows, result_places

__all__ = [
    "BadPattern",
    "Following",
    "Mirror",
    "MirrorAway",
    "Mirrored",
    "Places",
    "Stamp",
    "TooSlow",
    "check_patterns",
    "columns_of",
    "count_rows",
    "forget_mirror",
    "grouped_aggregates",
    "is_wanted",
    "open_mirror",
    "result_places",
    "searcher",
]
