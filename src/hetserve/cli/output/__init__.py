"""How answers are shown: documents, tables, pictures, progress, messages."""
