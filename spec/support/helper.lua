-- Loaded before every spec file. busted forgets the modules that a file loads; one Lua state has one bridge, so these stay.
require "moontensor"
require "moontensor.python"
require "spec.support.ids"
