-- Several Lua states in one process: a C host (spec/support/states.c), run in children under a watchdog.
describe("Lua states", function()
  local host

  setup(function()
    host = os.tmpname()
    local inc = os.getenv "LUA_INCDIR" or "/usr/include/lua5.4"
    assert(os.execute(("cc -std=c11 -D_GNU_SOURCE -Wall -Werror -Iinclude -I%s -o %s spec/support/states.c -llua5.4 -lpthread")
      :format(inc, host)))
  end)
  teardown(function() os.remove(host) end)

  local function run(command)
    local pipe = io.popen(("LUA_PATH='%s' LUA_CPATH='%s' timeout 60 %s %s 2>&1; echo \"status $?\"")
      :format(package.path, package.cpath, host, command))
    local out = pipe:read "a"
    pipe:close()
    return out
  end

  it("may follow one another; what the first left in Python says that it is closed", function()
    assert.equal("three states\nstatus 0\n", run "one_after_another")
  end)
  it("may be gone when a consumer calls its deleter", function()
    assert.equal("sum 10\nstatus 0\n", run "late_deleter")
  end)
  it("A23: four of them work on four threads", function()
    assert.equal("exports 0 imports 0 storages 0\nstatus 0\n", run "threads")
  end)
  it("A23: four of them cross while two Python threads call functions of two of them", function()
    local counts = "crossings true calls true true exports 0 imports 0 storages 0 callables 0 queued 0\n"
    assert.matches("^" .. counts .. ".*status 0\n$", run "crowd 2")
  end)
  it("RB1: a collection in one waits for no other", function()
    assert.equal("both done\nstatus 0\n", run "finalizers")
  end)
  it("RB7: a thread that is not the main one hosts Lua, and another after it", function()
    assert.equal("twice\nstatus 0\n", run "elsewhere")
  end)
  it("P23: the host finalizes Python itself, with views, arrays and callables alive", function()
    local refusal = "Python was finalized by this process's host"
    local out = run "finalize_first"
    assert.equal(3, select(2, out:gsub("false\t[^\n]*" .. refusal .. "\n", "")), out) -- eval, to_numpy, hold
    assert.equal(2, select(2, out:gsub("false\t[^\n]*python object is closed%)\n", "")), out) -- #list, in time and late
    assert.matches("\nfalse\tpython object %(closed%)\n", out)
    assert.matches("\n66%.0\t66%.0\n", out)
    assert.matches("\nlate\tfalse\t[^\n]*python object is closed%)\n", out)
    assert.matches("\nfalse\t[^\n]*" .. refusal .. ", and does not start again\n2%.0\nfinalized 0\nstatus 0\n$", out)
  end)
  it("close safely after Python's exit work", function()
    assert.equal("closed\nstatus 0\n", run "shut_down_first")
  end)
end)
