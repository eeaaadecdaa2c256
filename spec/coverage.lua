-- The rows that specs prove, by the ids in their names: zz_coverage_spec.lua, which runs last, demands each of them.
--   A, P, X   what the exchange and the bridge promise
--   RT, RB    public reports about other libraries, restated
return {
  counts = {A = 28, P = 25, X = 19, RT = 33, RB = 19},
  -- not to be run here, and why
  pending = {
    A24 = "needs a CUDA or Metal device",
    RT8 = "needs a CUDA device: the release of a tensor that a kernel still reads",
    RT32 = "needs a CUDA device: streams",
  },
}
