"""The compiled loops: counting, planning on an estimate, exploring step by step.

Every function takes plain arrays (in named tuples) and is compiled once per machine and cached.
"""
