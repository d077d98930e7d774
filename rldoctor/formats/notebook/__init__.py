"""Jupyter notebooks: their code cells as one Python source and one shell script."""
