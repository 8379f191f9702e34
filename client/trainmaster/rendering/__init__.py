"""How things look in a terminal: values in, rich renderables or plain text out; nothing here talks to the platform."""
