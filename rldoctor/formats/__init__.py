"""One reader and writer for each format of launch files."""
