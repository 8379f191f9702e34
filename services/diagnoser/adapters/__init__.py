"""What the diagnoser asks for outside of itself."""
