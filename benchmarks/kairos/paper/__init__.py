"""The paper's setting, and the figures that its text and its artifact give."""
