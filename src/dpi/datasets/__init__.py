"""Made-up streams whose truth is known."""
