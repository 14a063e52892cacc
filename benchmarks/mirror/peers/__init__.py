"""Other tools' stores, asked the same questions; each is installed in an environment of its own."""
