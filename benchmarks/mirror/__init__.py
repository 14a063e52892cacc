"""The columnar mirror: how long its answers take on a million rows."""
