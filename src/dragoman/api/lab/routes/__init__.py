"""The lab's routes: declared once, answered by the lab's process, documented by the server."""
