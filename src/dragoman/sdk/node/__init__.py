"""The node's side of the protocol."""
