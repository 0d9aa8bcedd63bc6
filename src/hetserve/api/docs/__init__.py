"""What conditions and their reasons mean; source of docs/conditions.md."""
