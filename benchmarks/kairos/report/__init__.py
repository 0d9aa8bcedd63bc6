"""The kept measurements, their plots, and the page made from them."""
