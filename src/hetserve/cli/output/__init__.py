"""Output of commands: documents, tables, figures, progress, messages."""
