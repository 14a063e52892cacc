"""One instance among several: its jobs and slots lie in a ledger that all of them share."""
