"""What core and kit share: units, files, pages of lists and YAML. It imports neither."""
