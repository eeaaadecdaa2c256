rockspec_format = "3.0"
package = "moontensor"
version = "scm-1"
source = {
  -- for `luarocks make` in a checkout; a published rock names its own archive here
  url = "git+file://.",
}
description = {
  summary = "Tensors for Lua that share memory with PyTorch and NumPy",
  detailed = [[
Native tensors with a C core, an embedded CPython found at run time, and exchange of memory with PyTorch and NumPy
without copying. The core needs a C compiler and Lua; the bridge is built where Python.h and NumPy's headers are found.]],
  license = "MIT",
  labels = {"tensor", "numerical", "python", "pytorch", "numpy"},
}
supported_platforms = {"unix"}
dependencies = {
  "lua >= 5.4, < 5.5",
}
build = {
  type = "make",
  variables = {
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    LIBFLAG = "$(LIBFLAG)",
    LUA_INCDIR = "$(LUA_INCDIR)",
    BUILD = "build/rock",
  },
  install_variables = {
    PREFIX = "$(PREFIX)",
    LUADIR = "$(LUADIR)",
    LIBDIR = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
  },
}
test = {
  type = "command",
  command = "make test",
}
