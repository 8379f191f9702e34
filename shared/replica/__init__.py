"""Python files that engines lay into replicas for training code to import; nothing of the platform imports them."""
