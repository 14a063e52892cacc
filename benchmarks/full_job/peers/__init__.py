"""Task queues that Python people know, doing a no-op job and fetching its result.

Each runs in an environment of its own, made on demand. `measuring` and the `with_*` scripts are
run there, so they import nothing of Dragoman's.
"""
