"""One registry per family; command line, chart schema and docs derive from it. Members are imported on use."""
