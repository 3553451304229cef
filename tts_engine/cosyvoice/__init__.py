"""CosyVoice: our own synthesis loop over its modules and checkpoints."""
