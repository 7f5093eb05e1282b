"""Pure decisions: match, units, limits, fit, contract. No I/O, no clock, no randomness."""
