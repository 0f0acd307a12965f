"""Whether a chain of certificates, a store or a file of releases is what it says it is."""

from dpi.verification._store import check_accounts, verify
from dpi.verification.result import Span, Verification

__all__ = ["Span", "Verification", "check_accounts", "verify"]
