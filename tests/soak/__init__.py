"""A soak: hours of ordinary and dishonest load on a real server, to see whether anything grows."""
