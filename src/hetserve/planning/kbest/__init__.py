"""The best configurations of a budget by Kairos's bound: of all if they are at most a million, else of good ones."""
