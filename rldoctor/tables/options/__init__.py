"""Which options each framework knows, in which release, with which default."""

from rldoctor.tables.options.model import MISSING, Computed, Option
from rldoctor.tables.options.optionset import OptionSet

__all__ = ["MISSING", "Computed", "Option", "OptionSet"]
