"""planning façade (filled below)."""
