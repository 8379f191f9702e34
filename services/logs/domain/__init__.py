"""What the logs service decides by, without input or output."""
