"""Log files: from bytes to one incident."""
