"""The node agent on Kubernetes: pods of this node become directories of replicas, as the local engine lays them.

What ships logs, samples and event files works on those directories and does not know of Kubernetes.
"""
