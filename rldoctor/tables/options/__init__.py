"""Which options each framework knows, in which release, with which default."""

from rldoctor.tables.options.installed import InstalledOptions, read_installed
from rldoctor.tables.options.model import MISSING, Computed, Option
from rldoctor.tables.options.optionset import OptionSet
from rldoctor.tables.options.table import OptionTable

__all__ = ["MISSING", "Computed", "InstalledOptions", "Option", "OptionSet", "OptionTable", "read_installed"]
