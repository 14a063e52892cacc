"""The session client: speech or text in, translations out, through lost connections."""
