-- busted output for people and for scripts/test.sh: one line for each spec file, every failure in full, every skip with
-- its reason, and the counts last.
return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local now = require "system".monotime
  local file, started, before

  local function counts()
    return handler.successesCount, handler.failuresCount + handler.errorsCount, handler.pendingsCount
  end

  local function describe(kind, record)
    local trace = record.trace or record.element.trace or {}
    local where = trace.short_src and ("%s:%s: "):format(trace.short_src, trace.currentline or "?") or ""
    local message = record.message
    if type(message) ~= "string" then
      message = message ~= nil and require "pl.pretty".write(message) or ""
    end
    io.write(kind, " ", where, record.name, (("\n" .. message):gsub("%s+$", ""):gsub("\n", "\n     ")), "\n")
    if options.verbose and trace.traceback then io.write(trace.traceback, "\n") end
  end

  function handler.fileStart(element)
    file, started, before = element.name, now(), {counts()}
    return nil, true
  end

  function handler.fileEnd()
    local passed, failed, skipped = counts()
    io.write(("%-4s %-44s %4d passed"):format(failed > before[2] and "FAIL" or "ok", file, passed - before[1]))
    if failed > before[2] then io.write((" %3d failed"):format(failed - before[2])) end
    if skipped > before[3] then io.write((" %3d skipped"):format(skipped - before[3])) end
    io.write(("  %.1f s\n"):format(now() - started))
    io.flush()
    return nil, true
  end

  function handler.suiteEnd()
    for _, record in ipairs(handler.pendings) do describe("skip", record) end
    for _, record in ipairs(handler.failures) do describe("FAIL", record) end
    for _, record in ipairs(handler.errors) do describe("ERROR", record) end
    io.write(("%d passed, %d failed, %d skipped\n"):format(counts()))
    io.flush()
    return nil, true
  end

  busted.subscribe({"file", "start"}, handler.fileStart)
  busted.subscribe({"file", "end"}, handler.fileEnd)
  busted.subscribe({"suite", "end"}, handler.suiteEnd)
  return handler
end
