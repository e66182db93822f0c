"""What engines share of the frameworks they run on: a room each for torch, JAX and TensorFlow."""
