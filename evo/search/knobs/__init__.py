"""Search of knob spaces: reading them, strategies, replay of measured ones."""
