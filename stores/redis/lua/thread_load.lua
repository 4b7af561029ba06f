-- Read a thread in one consistent view.
-- KEYS: [1..4] of thread.lua. ARGV: list of fields of ENDED; list of at most one run id.
-- Returns what `seen` says: now, generation, write id, claim, record, snapshot, bag, the known run, chunks. Where there is
-- none: null.

local fields = take_list()
local run_ids = take_list()
return seen(clock(), known_run(fields, run_ids))
