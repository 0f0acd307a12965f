"""Systems of others, data sets, comparisons and the published evaluation: a wing that nothing else needs."""
