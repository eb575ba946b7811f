"""Compiled loops over Arrow and numpy buffers. `runtime.native` compiles, keeps and loads them."""
