"""The native decoder: C on libjpeg-turbo, compiled on this machine where that is possible."""
