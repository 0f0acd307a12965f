"""Whether a chain of certificates, a store or a file of releases is what it says it is."""

from dpi.verification.accounts import check_accounts
from dpi.verification.found import Span, Verification
from dpi.verification.store import verify

__all__ = ["Span", "Verification", "check_accounts", "verify"]
