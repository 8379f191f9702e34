"""What the watchdog keeps and listens to."""
