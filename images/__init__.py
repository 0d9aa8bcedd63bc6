"""Container images of the components: what each carries, how it is built, and how large it is."""
