# moontensor. `make help` lists the commands.

CC ?= cc
CFLAGS ?= -O2 -g
LUA ?= lua5.4
LUA_INCDIR ?= /usr/include/lua5.4
LIBFLAG ?= -shared
BUILD ?= build
PYTHON ?= $(if $(wildcard .venv/bin/python),.venv/bin/python,python3)

WARN := -Wall -Wextra -Wshadow -Wundef -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
BASE := -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -MMD -MP $(WARN)
CORE_SRC := $(wildcard src/core/*.c devices/*.c devices/*/*.c)
LUA_SRC := $(wildcard src/lua/*.c)
BRIDGE_SRC := $(wildcard src/python/*.c)
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/%.o)
LUA_OBJ := $(LUA_SRC:%.c=$(BUILD)/%.o)
BRIDGE_OBJ := $(BRIDGE_SRC:%.c=$(BUILD)/%.o)

.PHONY: all
all: $(BUILD)/moontensor/core.so $(BUILD)/moontensor/bridge.so

$(BUILD)/moontensor/core.so: $(CORE_OBJ) $(LUA_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LIBFLAG) -Wl,-z,nodelete $(LDFLAGS) -o $@ $^ -lm -lpthread -ldl

$(BUILD)/moontensor/bridge.so: $(BRIDGE_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LIBFLAG) -Wl,-z,nodelete $(LDFLAGS) -o $@ $^ -lpthread -ldl

$(BUILD)/src/core/%.o $(BUILD)/devices/%.o: INCLUDES := -Iinclude
$(BUILD)/src/lua/%.o: INCLUDES := -Iinclude -I$(LUA_INCDIR)
$(BUILD)/src/python/%.o: INCLUDES = -Iinclude -I$(LUA_INCDIR) $(PYTHON_INCLUDES)

PYTHON_INCLUDES = $(shell $(PYTHON) -c 'import sysconfig, numpy; print("-I" + sysconfig.get_path("include"), "-I" + numpy.get_include())')

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(CFLAGS) $(INCLUDES) -c -o $@ $<

-include $(CORE_OBJ:.o=.d) $(LUA_OBJ:.o=.d) $(BRIDGE_OBJ:.o=.d)
