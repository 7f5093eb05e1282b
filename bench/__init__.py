"""Speed, measured: `python -m bench scan`, `python -m bench fit`, `python -m bench all`."""
