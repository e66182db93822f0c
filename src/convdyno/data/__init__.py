"""Where batches come from."""

SOURCES = {
    "synthetic": "one random batch, kept on the device",
    "synthetic-host": "one random batch, brought to the device anew for every step",
}
