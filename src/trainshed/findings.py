"""What a rule about somebody's file is: a notebook's rules and a manifest's are of one type."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """What follows from a finding: with an error the file cannot become what it is meant to be."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Rule(msgspec.Struct, frozen=True):
    """A kind of finding. Codes are for people to search for and never change their meaning."""

    code: str
    name: str
    severity: Severity
    meaning: str
