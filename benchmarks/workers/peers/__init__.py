"""The same calls on task queues, each result put into the same database with one insert."""
