"""The compiled loops: counting, planning on an estimate, exploring step by step.

Kernels take plain arrays, many at a time in named tuples. They are compiled once per machine, at
their first call, and cached; `compiled` says how.
"""
