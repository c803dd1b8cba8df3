"""Every module, one family per file."""
