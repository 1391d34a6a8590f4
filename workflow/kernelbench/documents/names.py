"""stand-in"""


def name(op, size=None, dtype=None):
    return f"{op} {size}" if size else op
