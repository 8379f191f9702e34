"""A Kubernetes for tests: an API server over a real socket, and kubelets that only act as if they ran pods.

`server.ApiServer` answers like kube-apiserver with the garbage collector and the namespace controller behind it; what
it answers is held against a real one by `tests/kubernetes/test_api_server_contract.py`. `kubelet.SimulatedKubelet`
plays the nodes, on this server or on a real cluster that has none.
"""
