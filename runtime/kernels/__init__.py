"""Compiled loops over Arrow and numpy buffers. `sqlstream.runtime.native` compiles, caches and loads them."""
