"""From the rows of a slot to a histogram of whole numbers: one user, one unit."""
