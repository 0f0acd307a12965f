"""What was promised and released, as a chain of entries that can be checked and signed."""
