"""A run: a plan is searched by what measures it, and every measurement becomes a record in the journal.

`plan` says what is searched, with which budget and how. `search` asks the strategy and keeps the trials of one task.
What measures is this machine (`local_run`), a data set that answers from its records (`local_run.replay`), or the
members of a fleet (`fleet.run`). The same plan gives the same kind of results on all of them, but they promise
different things:

| | this machine and a replay | a fleet |
| :-- | :-- | :-- |
| a record is in the journal | at once, before its progress is reported | after the control that follows it |
| a killed run repeats | nothing | at most the last block of answers of each member |
| the strategy receives | each result as it comes | a round of results, in the order of its proposals |
| `Budget.seconds` | seconds on the clock, with start and finals | seconds that members measured, without finals |
| a repeated problem | is resumed | counts once |
| results | one for each problem | one for each problem and group, with the members' names |
| a problem that cannot be measured | is skipped if there are others, else raises | is skipped |
"""
