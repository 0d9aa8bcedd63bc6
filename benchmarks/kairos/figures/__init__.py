"""The figures and tables, a module each: `measure`, `describe` and its plot."""
