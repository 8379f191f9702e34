"""The Helm chart's parts that are made from the platform's own tables, so that neither can differ from the other."""
