"""The kill test: a sidecar under load is killed again and again, and must still know all that it acknowledged.

`python -m tests.fault.kills --kills 1000` (or `make kill-test`) runs it on request; `test_kills.py` runs 30 kills.

Eight agents, four in each dialect, work at once: fits with receipts, pins and anchors, records, compactions by ledger, by the
caller and by a model endpoint, rollbacks, reads. The process is killed at random moments and at every failpoint. Each agent
repeats the request that was cut off, as a client does. After each restart everything that was ever acknowledged is compared
with what the sidecar says. A second sidecar, never killed, gets the same requests: bodies, revisions and histories must be
equal byte for byte.

A session ends at 300 items and its agent begins another; those that ended are compared in turn, all of them after the last kill.
Most lives are forked from a process that has loaded the sidecar's modules (`nursery.py`); one in ten loads them itself.
"""
