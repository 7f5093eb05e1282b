"""Generated from proto/trimtab/v1 by `make proto`. Not written by hand, but for this line."""
