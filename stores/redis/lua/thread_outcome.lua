-- Find a retained run.
-- KEYS: [1..4] of thread.lua. ARGV: list of fields of ENDED; list of at most one run id.
-- Returns the run, or null.

local fields = take_list()
local run_ids = take_list()
return known_run(fields, run_ids)
