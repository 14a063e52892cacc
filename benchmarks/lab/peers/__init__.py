"""The same experiment on other evaluation tools, each in an environment of its own."""
