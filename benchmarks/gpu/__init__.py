"""How models share a real GPU, beside what the model of sharing says of them."""
