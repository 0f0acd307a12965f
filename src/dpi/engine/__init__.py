"""Beyond one process: the same stream, with the same store, ledger and noise, on many processes or machines."""
