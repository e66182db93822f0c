"""Where batches come from."""

KNOWN = {
    "mnist": "60,000 + 10,000 digits, 28x28 grey; `convdyno data get mnist`",
    "fashion-mnist": "60,000 + 10,000 clothes, 28x28 grey; `convdyno data get fashion-mnist`",
    "cifar10": "50,000 + 10,000 things, 32x32 colour; `convdyno data get cifar10`",
}
"""Real sets by name."""
SOURCES = {
    "synthetic": "one random batch, kept on the device",
    "synthetic-host": "one random batch, brought to the device anew for every step",
}
