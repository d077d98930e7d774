"""Knowledge derived from the packages' own sources, by release."""
