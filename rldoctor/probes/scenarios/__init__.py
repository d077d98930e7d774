"""The scenarios that rldoctor brings along, one file each; their programs are in ``children/scenarios``."""
