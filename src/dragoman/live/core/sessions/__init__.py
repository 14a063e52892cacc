"""Sessions: speech in, results back in order, over one connection after another."""
