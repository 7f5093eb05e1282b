"""The contract scenario: an agent moves a service to an async queue, and a reader with no memory must still know what matters.

At turn 3 the user freezes the billing module; step 38 is the benchmark that makes Redis the choice; a trim is forced at step 41
and a compaction at step 55; at step 62 a scripted reader, with no other memory than the body and the read-back tool, must find
why Redis, what is left to do, the exact diff, and the freeze. `python -m tests.acceptance.contract` prints the report.
"""
