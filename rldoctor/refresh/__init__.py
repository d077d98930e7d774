"""Makes the tables of packages from their published releases: a module for each kind of table, and the command."""
