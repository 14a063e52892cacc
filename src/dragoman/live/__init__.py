"""The live plane: from a speaker's audio to results in order, over a fleet of nodes."""
