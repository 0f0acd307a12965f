"""0-DP synopses: PDFs that are made without looking at the data of the slot."""
