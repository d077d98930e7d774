"""What a release refuses of the values that a launch gives, and what would keep it from that."""

from __future__ import annotations

from rldoctor.frameworks.option_table import declared_choices, default_number
from rldoctor.link.remedies import remedies
from rldoctor.link.stated import refused_values, unheard_texts
from rldoctor.link.validations import is_of_another_algorithm

__all__ = [
    "declared_choices",
    "default_number",
    "is_of_another_algorithm",
    "refused_values",
    "remedies",
    "unheard_texts",
]
