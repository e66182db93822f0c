"""TensorFlow as the native engine and Keras both use it."""
