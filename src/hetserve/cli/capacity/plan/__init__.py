"""`hetserve plan`: command, options, answer, table and pictures."""
