"""What the platform publishes about its events: JSON Schemas, an AsyncAPI document, and a check of compatibility."""
