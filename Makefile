# moontensor. `make help` lists the commands.

CC ?= cc
CFLAGS ?= -O2 -g
LIBFLAG ?= -shared
LUA ?= lua5.4
BUILD ?= build
PREFIX ?= /usr/local
LUADIR ?= $(PREFIX)/share/lua/5.4
LIBDIR ?= $(PREFIX)/lib/lua/5.4
BINDIR ?= $(PREFIX)/bin
INCDIR ?= $(PREFIX)/include

lua_headers := $(wildcard $(addsuffix /lua.h,$(addprefix /usr/include/,lua5.4 lua54) /usr/local/include/lua5.4 \
                 /usr/local/include /usr/include))
LUA_INCDIR ?= $(or $(patsubst %/lua.h,%,$(firstword $(lua_headers))),$(shell pkg-config --variable=includedir lua5.4))
PYTHON_INCLUDES ?= $(eval PYTHON_INCLUDES := $$(shell PYTHON='$(PYTHON)' scripts/python.sh includes))$(PYTHON_INCLUDES)
export PYTHON

WARN := -Wall -Wextra -Wshadow -Wundef -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
ifeq ($(CI),true)
WARN += -Werror
endif
BASE := -std=c11 -D_GNU_SOURCE -fPIC -fno-plt -fvisibility=hidden -ffp-contract=off -MMD -MP $(WARN)
ifneq (,$(findstring clang,$(shell $(CC) --version 2>/dev/null)))
BASE += -Wno-pass-failed # calls of libm stay calls
endif
CORE_SRC := $(wildcard src/core/*.c devices/*.c devices/*/*.c)
LUA_SRC := $(wildcard src/lua/*.c)
BRIDGE_SRC := $(wildcard src/python/*.c)
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/%.o)
LUA_OBJ := $(LUA_SRC:%.c=$(BUILD)/%.o)
BRIDGE_OBJ := $(BRIDGE_SRC:%.c=$(BUILD)/%.o)
CORE := $(BUILD)/moontensor/core.so
BRIDGE := $(BUILD)/moontensor/bridge.so

.PHONY: all
all: $(CORE) ## build core.so, and bridge.so where Python.h and NumPy's headers are
ifneq ($(BRIDGE_SRC),)
	@$(if $(PYTHON_INCLUDES),$(MAKE) --no-print-directory $(BRIDGE),$(left_out))
endif

# A bridge left from an earlier build is not part of this one.
left_out = rm -f $(BRIDGE); echo "moontensor: bridge.so left out, for want of Python.h or NumPy 2 headers; to add it:" \
           "apt-get install python3-dev && pip install 'numpy>=2', then make PYTHON=/path/to/python3"

$(CORE): $(CORE_OBJ) $(LUA_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LIBFLAG) -Wl,-z,nodelete $(LDFLAGS) -o $@ $^ -lm -lpthread -ldl

$(BRIDGE): $(BRIDGE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LIBFLAG) -Wl,-z,nodelete $(LDFLAGS) -o $@ $^ -lpthread -ldl

$(BUILD)/src/core/%.o $(BUILD)/devices/%.o: INCLUDES := -Iinclude
# errno and trap flags are nobody's: without them more loops become vector code, with the same results
$(BUILD)/devices/cpu/%.o: override CFLAGS += -O3 -fno-math-errno -fno-trapping-math
$(BUILD)/src/lua/%.o: INCLUDES = -Iinclude -I$(LUA_INCDIR)
$(BUILD)/src/python/%.o: INCLUDES = -Iinclude -I$(LUA_INCDIR) $(PYTHON_INCLUDES:-I%=-isystem %)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(INCLUDES) -c -o $@ $<

$(BUILD)/bench/%.so: bench/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(LIBFLAG) $(BASE) $(CFLAGS) -I$(LUA_INCDIR) $(PYTHON_INCLUDES:-I%=-isystem %) -o $@ $<

# other flags, other objects
flags := $(CC) $(BASE) $(CFLAGS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(flags)' | cmp -s - $@ || printf '%s\n' '$(flags)' > $@
FORCE:

-include $(CORE_OBJ:.o=.d) $(LUA_OBJ:.o=.d) $(BRIDGE_OBJ:.o=.d)

# ---- commands ----

.PHONY: help setup demo check test specs lint asan valgrind mutants fuzz bench doctor env install clean FORCE

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

setup: ## install what is missing: Debian packages and a pinned .venv
	@scripts/setup.sh

demo: ## train a digits classifier from Lua, on real data
	@scripts/setup.sh run
	@$(MAKE) --no-print-directory all
	@scripts/env.sh $(LUA) examples/digits.lua

check: setup ## specs and lint: what a contributor runs (minutes)
	@scripts/test.sh build specs lint

test: setup ## everything
	@scripts/test.sh

specs: all ## busted alone; make specs SPEC=spec/view_spec.lua to narrow it
	@scripts/env.sh scripts/busted.sh $(SPEC)

lint: ## layering, luacheck, cppcheck, format, docs
	@scripts/lint.sh

asan: setup ## the specs under ASan and UBSan
	@scripts/test.sh asan

valgrind: setup ## what needs no Python under valgrind
	@scripts/test.sh valgrind

mutants: setup ## plant faults, one at a time, that the specs must notice
	@scripts/test.sh mutants

fuzz: setup ## the parsers of foreign bytes under libFuzzer, 60 s each
	@scripts/test.sh fuzz

bench: ## measure every row against its reference into bench/RESULTS.md
	@scripts/setup.sh run
	@$(MAKE) --no-print-directory all
	@scripts/env.sh scripts/bench.sh

doctor: all ## what is here, what is wrong, and the command that mends it
	@scripts/env.sh $(LUA) bin/moontensor doctor

env: ## print settings for a shell: eval "$(make -s env)"
	@scripts/env.sh

install: all ## into LUADIR, LIBDIR, BINDIR and INCDIR (LuaRocks sets them)
	@mkdir -p '$(DESTDIR)$(LUADIR)' '$(DESTDIR)$(LIBDIR)/moontensor' '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(INCDIR)'
	(cd lua && find moontensor -name '*.lua' | tar -cf - -T -) | tar -xf - --no-same-owner -C '$(DESTDIR)$(LUADIR)'
	install -m 755 $(CORE) $(wildcard $(BRIDGE)) '$(DESTDIR)$(LIBDIR)/moontensor'
	install -m 755 bin/moontensor '$(DESTDIR)$(BINDIR)'
	install -m 644 include/moontensor.h include/moontensor_abi.h '$(DESTDIR)$(INCDIR)'

clean: ## remove build/ and out/
	rm -rf $(BUILD) out
