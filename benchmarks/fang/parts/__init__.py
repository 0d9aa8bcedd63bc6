"""Parts of the report on Fang et al.'s schedulers."""
