"""Which options each framework knows, in which release, with which default."""

from rldoctor.launch.options.installed import InstalledOptions, read_installed
from rldoctor.launch.options.model import MISSING, Computed, Option
from rldoctor.launch.options.optionset import OptionSet
from rldoctor.launch.options.table import OptionTable

__all__ = ["MISSING", "Computed", "InstalledOptions", "Option", "OptionSet", "OptionTable", "read_installed"]
