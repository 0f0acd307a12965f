"""What estimators share: beliefs about levels, the population they come from, and what a noisy count says of one."""
