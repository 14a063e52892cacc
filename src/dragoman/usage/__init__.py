"""What each tenant has used, by day: jobs, seconds of audio, characters, tokens.

`UsageTally` counts in memory while jobs end, `UsageWriter` writes its totals to the database now
and then, and `UsageStore` adds up what all instances have written.
"""

from dragoman.usage.store import DayUsage, UsageStore
from dragoman.usage.tally import Amounts, UsageTally
from dragoman.usage.writer import UsageWriter

__all__ = ["Amounts", "DayUsage", "UsageStore", "UsageTally", "UsageWriter"]
