"""The registry that all tests share: to go through every module takes as long as to judge a case."""

from __future__ import annotations

from rldoctor.catalogue import registry

REGISTRY = registry.load()
