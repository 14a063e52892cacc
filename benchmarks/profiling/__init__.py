"""Where a job's time goes: calls by stage, and a flame graph of the server under load."""
