"""Where source text and metadata of published or installed packages come from."""
