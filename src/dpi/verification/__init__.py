"""Whether a chain of certificates, a store or a file of releases is what it says it is."""

from dpi.verification.result import Span, Verification
from dpi.verification.store import check_accounts, verify

__all__ = ["Span", "Verification", "check_accounts", "verify"]
