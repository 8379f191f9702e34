"""What the agent decides by, without input or output."""
