"""Compiled loops over Arrow and numpy buffers. `runtime.native` compiles, caches and loads them."""
