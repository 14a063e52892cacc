"""Parts of ledgers in one process's memory."""
